// What the tape costs: one tiny op forward and backward.
#include <benchmark/benchmark.h>

#include <chrono>

#include "engine/autograd/tape.hpp"
#include "engine/ops/elementwise.hpp"

using namespace gradus;

namespace {

constexpr int ops = 100;

double nanoseconds() { return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void chain_on_the_tape(Tape& tape, const Tensor& one) {
  tape.clear();
  const Tensor x = tape.variable(one);
  Tensor y = x;
  for (int i = 0; i < ops; ++i) y = neg(y);
  benchmark::DoNotOptimize(tape.backward(y).of(x).buffer().data());
}

void chain_off_the_tape(const Tensor& one, int length) {
  Tensor y = one;
  for (int i = 0; i < length; ++i) y = neg(y);
  benchmark::DoNotOptimize(y.buffer().data());
}

// A chain of negations of one number, forward and backward, beside the same 2 * ops negations off the tape: the difference
// is what recording and going back cost, the bookkeeping. In nanoseconds an op.
void tiny_op_forward_and_backward(benchmark::State& state) {
  Tape tape;
  const Tensor one = Tensor::ones({});
  double with_tape = 0, without = 0;
  for (auto _ : state) {
    const double start = nanoseconds();
    chain_on_the_tape(tape, one);
    const double middle = nanoseconds();
    chain_off_the_tape(one, 2 * ops);
    with_tape += middle - start;
    without += nanoseconds() - middle;
  }
  const double each = 1.0 / (ops * static_cast<double>(state.iterations()));
  state.counters["total_ns"] = with_tape * each;
  state.counters["bookkeeping_ns"] = (with_tape - without) * each;
}
BENCHMARK(tiny_op_forward_and_backward);

}  // namespace
