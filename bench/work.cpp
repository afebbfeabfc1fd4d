#include "bench/work.hpp"

#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>

#include "bench/machine.hpp"
#include "engine/autograd/gradcheck.hpp"
#include "engine/core/memory.hpp"
#include "engine/core/parallel.hpp"
#include "engine/kernels/kernels.hpp"

namespace gradus::bench {

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

volatile const void* sink;

double time_of(const Step& step, double budget) {
  // Doubling finds how many steps fill the time; they then run without looking at the clock.
  for (long count = 1;; count *= 2) {
    const double start = seconds();
    for (long i = 0; i < count; ++i) step();
    const double took = seconds() - start;
    if (took >= budget / 2 || count > (1L << 40)) return took / static_cast<double>(count);
  }
}

class Server {
 public:
  Server() {
    for (Work& work : all_works()) {
      order_.push_back(work.name);
      works_.emplace(work.name, std::move(work));
    }
  }

  void answer(const std::string& line) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "list") {
      for (const std::string& work : order_) std::printf("%s\t%g\t%d\n", work.c_str(), works_.at(work).flop, works_.at(work).f64 ? 1 : 0);
      std::printf("\n");
    } else if (name == "limits") {
      std::printf("%s\t%d\t%g\t%g\n", kernels::name_of(kernels::active_isa()), thread_count(), fma_limit<float>(), fma_limit<double>());
    } else if (name == "memory") {
      words >> name;
      std::printf("%lld\n", static_cast<long long>(memory_of(name)));
    } else if (works_.count(name) > 0) {
      double budget = 0.1;
      words >> budget;
      std::printf("%.9g\n", time_of(step_of(name), budget));
    } else {
      std::printf("unknown\n");
    }
    std::fflush(stdout);
  }

 private:
  // One work is kept ready at a time: data of all would not fit.
  const Step& step_of(const std::string& name) {
    if (ready_ != name) {
      step_ = nullptr;
      step_ = works_.at(name).prepare();
      step_();
      step_();
      ready_ = name;
    }
    return step_;
  }
  std::int64_t memory_of(const std::string& name) {
    const Step& step = step_of(name);
    MemoryPool& pool = MemoryPool::instance();
    pool.reset_peak();
    const PoolStats before = pool.stats();
    step();
    return pool.stats().peak_bytes - before.live_bytes;
  }

  std::map<std::string, Work> works_;
  std::vector<std::string> order_;
  std::string ready_;
  Step step_;
};

}  // namespace

std::vector<Work> all_works() {
  std::vector<Work> all;
  for (auto* family : {gemm_works, op_works, attention_works, model_works})
    for (Work& work : family()) all.push_back(std::move(work));
  return all;
}

Step forward_backward(std::vector<Tensor> inputs, TensorFunction f) {
  const Tensor y = f(inputs);
  const Tensor cotangent = y.numel() == 1 ? Tensor{} : random_normal(y.shape(), y.dtype(), 99);
  return [tape = std::make_shared<Tape>(), inputs = std::move(inputs), f = std::move(f), cotangent] {
    tape->clear();
    std::vector<Tensor> watched;
    for (const Tensor& t : inputs) watched.push_back(is_floating(t.dtype()) ? tape->variable(t) : tape->input(t));
    const Gradients gradients = tape->backward(f(watched), {.cotangent = cotangent});
    sink = gradients.of(watched[0]).buffer().data();
  };
}

Step forward(std::vector<Tensor> inputs, TensorFunction f) {
  return [inputs = std::move(inputs), f = std::move(f)] { sink = f(inputs).buffer().data(); };
}

void serve() {
  Server server;
  for (std::string line; std::getline(std::cin, line);) server.answer(line);
}

}  // namespace gradus::bench
