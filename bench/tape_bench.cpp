// What the tape costs: one tiny op forward and backward, recorded and replayed, with nothing to compute in it.
#include <benchmark/benchmark.h>

#include "engine/autograd/tape.hpp"
#include "engine/ops/elementwise.hpp"

using namespace gradus;

namespace {

constexpr int ops = 100;

// A chain of `ops` negations of one number, forward and backward; the time of the whole is divided by `ops`.
void tiny_op_forward_and_backward(benchmark::State& state) {
  Tape tape;
  const Tensor one = Tensor::ones({});
  for (auto _ : state) {
    tape.clear();
    const Tensor x = tape.variable(one);
    Tensor y = x;
    for (int i = 0; i < ops; ++i) y = neg(y);
    benchmark::DoNotOptimize(tape.backward(y).of(x).buffer().data());
  }
  state.counters["ns_per_op"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * ops * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(tiny_op_forward_and_backward);

void tiny_op_forward_only(benchmark::State& state) {
  Tape tape;
  const Tensor one = Tensor::ones({});
  for (auto _ : state) {
    tape.clear();
    Tensor y = tape.variable(one);
    for (int i = 0; i < ops; ++i) y = neg(y);
    benchmark::DoNotOptimize(y.buffer().data());
  }
  state.counters["ns_per_op"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * ops * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(tiny_op_forward_only);

// Off the tape: what of the above is the op itself.
void tiny_op_off_the_tape(benchmark::State& state) {
  const Tensor one = Tensor::ones({});
  for (auto _ : state) {
    Tensor y = one;
    for (int i = 0; i < ops; ++i) y = neg(y);
    benchmark::DoNotOptimize(y.buffer().data());
  }
  state.counters["ns_per_op"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * ops * 1e-9, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(tiny_op_off_the_tape);

}  // namespace
