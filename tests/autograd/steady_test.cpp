// What long runs need: no allocation once warm, no recursion however long the chain, equal bits whatever the threads.
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <functional>

#include "engine/autograd/gradcheck.hpp"
#include "engine/core/parallel.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/ops/distance.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/tensor/view.hpp"
#include "tests/catch.hpp"
#include "tests/core/counting_new.hpp"

using namespace gradus;

namespace {

// A small attention-like network with every kind of op in it.
Tensor loss_of(const WatchedParameters& w, const Tensor& x, const Tensor& index) {
  const Tensor hidden = tanh(matmul(x, w[0]) + w[1]);
  const Tensor weights = softmax(-squared_distance(hidden, w[2]), {.inverse_temperature = 2.0});
  const Tensor mixed = matmul(weights, w[2]) + slice(hidden, 1, {0, Slice::none, 1});
  const Tensor rows = index_select(mixed, 0, index);
  return mean(square(where(greater(rows, 0.0), rows, 0.1 * rows))) + logsumexp(sum(transpose(mixed), {.axes = {1}}));
}

ParameterSet make_parameters() {
  ParameterSet parameters;
  parameters.add("projection", random_normal({6, 8}, DType::f32, 1));
  parameters.add("bias", random_normal({8}, DType::f32, 2));
  parameters.add("prototypes", random_normal({5, 8}, DType::f32, 3));
  return parameters;
}

void update(ParameterSet& parameters, const WatchedParameters& watched, const Gradients& gradients) {
  for (int i = 0; i < parameters.size(); ++i) {
    Tensor value = parameters[i].value;
    copy_into(value, value - 0.05 * gradients.of(watched[i]));
  }
}

// Runs f on a thread with a stack of 64 KB.
void on_small_stack(const std::function<void()>& f) {
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, 64 * 1024) == 0);
  pthread_t thread;
  const auto body = [](void* context) -> void* {
    (*static_cast<const std::function<void()>*>(context))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, body, const_cast<std::function<void()>*>(&f)) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

std::uint64_t hash_of(const Tensor& t, std::uint64_t hash = 1469598103934665603u) {
  for (const float v : t.to_vector<float>()) {
    std::uint32_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
  }
  return hash;
}

std::uint64_t train(int steps) {
  ParameterSet parameters = make_parameters();
  const Tensor x = random_normal({700, 6}, DType::f32, 9), index = Tensor::arange(700);
  Tape tape;
  for (int step = 0; step < steps; ++step) {
    tape.clear();
    const WatchedParameters w = tape.watch(parameters);
    update(parameters, w, tape.backward(loss_of(w, x, index)));
  }
  std::uint64_t hash = 0;
  for (int i = 0; i < parameters.size(); ++i) hash = hash_of(parameters[i].value, hash ^ 1469598103934665603u);
  return hash;
}

}  // namespace

TEST_CASE("a steady loop allocates nothing after its second step", "[steady]") {
  ParameterSet parameters = make_parameters();
  const Tensor x = random_normal({40, 6}, DType::f32, 9), index = Tensor::arange(40);
  Tape tape;
  long news_before = 0;
  PoolStats before;
  for (int step = 0; step < 50; ++step) {
    if (step == 2) {
      news_before = testing::news();
      before = MemoryPool::instance().stats();
    }
    tape.clear();
    const TapeGuard scope = tape.scope("training");
    const WatchedParameters w = tape.watch(parameters);
    const Tensor loss = loss_of(w, x, index);
    update(parameters, w, tape.backward(loss));
  }
  const PoolStats after = MemoryPool::instance().stats();
  CHECK(testing::news() - news_before == 0);
  CHECK(after.misses - before.misses == 0);
  CHECK(after.requests > before.requests);
}

TEST_CASE("a replayed step allocates nothing either and gives the recorded step's gradients", "[steady][replay]") {
  ParameterSet parameters = make_parameters();
  const Tensor x = random_normal({40, 6}, DType::f32, 9), index = Tensor::arange(40);
  Tape tape;
  const WatchedParameters w = tape.watch(parameters);
  const Tensor loss = loss_of(w, x, index);
  const Tensor first = copy(tape.backward(loss).of(w[0]));
  long news_before = 0, misses_before = 0;
  for (int step = 0; step < 20; ++step) {
    if (step == 2) {
      news_before = testing::news();
      misses_before = MemoryPool::instance().stats().misses;
    }
    tape.replay({.advance_noise = true});
    const Gradients gradients = tape.backward(loss);
    if (step == 0 && !bit_equal(gradients.of(w[0]), first)) FAIL("a replay changed the gradients");
    update(parameters, w, gradients);
  }
  CHECK(testing::news() - news_before == 0);
  CHECK(MemoryPool::instance().stats().misses - misses_before == 0);
}

TEST_CASE("keeping losses does not keep graphs", "[steady]") {
  ParameterSet parameters = make_parameters();
  const Tensor x = random_normal({40, 6}, DType::f32, 9), index = Tensor::arange(40);
  std::vector<Tensor> losses;
  losses.reserve(1000);
  Tape tape;
  std::int64_t live = 0;
  for (int step = 0; step < 1000; ++step) {
    tape.clear();
    if (step == 2) live = MemoryPool::instance().stats().live_bytes;
    if (step == 999) CHECK(MemoryPool::instance().stats().live_bytes - live <= 1000 * 256);
    losses.push_back(loss_of(tape.watch(parameters), x, index).detached());
  }
}

TEST_CASE("a chain of a million steps runs on a 64 KB stack", "[steady][chain]") {
  double value = 0, gradient = 0;
  on_small_stack([&] {
    Tape tape;
    const Tensor x = tape.variable(Tensor::scalar(1, DType::f64));
    Tensor y = x;
    for (int i = 0; i < 1000000; ++i) y = neg(y);
    value = y.item();
    gradient = tape.backward(y).of(x).item();
  });
  CHECK(value == 1);
  CHECK(gradient == 1);
}

TEST_CASE("training gives the same bits on any number of threads and on every instruction set with fma", "[steady][parallel]") {
  using kernels::Isa;
  const int threads_before = thread_count();
  const Isa isa_before = kernels::active_isa();
  set_thread_count(1);
  const std::uint64_t expected = train(20);
  for (const int threads : {2, 4}) {
    set_thread_count(threads);
    CHECK(train(20) == expected);
  }
  set_thread_count(threads_before);
  if (kernels::available(Isa::avx2) && kernels::available(Isa::avx512)) {
    kernels::select_isa(Isa::avx2);
    const std::uint64_t avx2 = train(20);
    kernels::select_isa(Isa::avx512);
    CHECK(train(20) == avx2);
    kernels::select_isa(isa_before);
  } else {
    WARN("only one instruction set with fma here: nothing to compare across");
  }
}
