// Attention forward and backward. Run with --benchmark_filter=attention; GRADUS_ISA and GRADUS_THREADS apply.
#include <benchmark/benchmark.h>

#include <span>

#include "engine/autograd/gradcheck.hpp"
#include "engine/autograd/tape.hpp"
#include "engine/ops/attention.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus::bench {
namespace {

// Arguments: items, queries, keys, coordinates, of values, dropout in thousandths, forward only.
template <Score score>
void attention_step(benchmark::State& state) {
  const index_t b = state.range(0), tq = state.range(1), tk = state.range(2), d = state.range(3), dv = state.range(4);
  const double dropout = static_cast<double>(state.range(5)) / 1000;
  const Tensor q = random_normal({b, tq, d}, DType::f32, 1), k = random_normal({b, tk, d}, DType::f32, 2), v = random_normal({b, tk, dv}, DType::f32, 3);
  const Tensor g = random_normal({b, tq, dv}, DType::f32, 4);
  Tape tape;
  for (auto _ : state) {
    tape.clear();
    const Tensor x = tape.variable(q), y = tape.variable(k), z = tape.variable(v);
    const Tensor out = attention(x, y, z, {.score = score, .map = {.inverse_temperature = 0.15}, .dropout = dropout});
    if (state.range(6) == 0) benchmark::DoNotOptimize(tape.backward(std::span(&out, 1), std::span(&g, 1)).of(x).buffer().data());
  }
  const double products = state.range(6) == 0 ? 3.5 : 1;  // forward 2, backward 5 products of the size of the scores
  state.counters["FLOP/s"] = benchmark::Counter(products * 2 * static_cast<double>(b * tq * tk * (d + dv)), benchmark::Counter::kIsIterationInvariantRate);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"items", "Tq", "Tk", "D", "Dv", "drop", "forward"})->UseRealTime()->Unit(benchmark::kMillisecond);
  for (const int forward : {1, 0}) {
    for (const int dropout : {0, 10}) {
      bench->Args({32, 512, 512, 42, 42, dropout, forward})->Args({32, 512, 10, 42, 42, dropout, forward});
      bench->Args({32, 10, 512, 42, 42, dropout, forward})->Args({32, 10, 10, 42, 42, dropout, forward});
    }
    bench->Args({64, 512, 512, 64, 64, 0, forward})->Args({8, 1024, 1024, 64, 64, 0, forward});
  }
}
BENCHMARK(attention_step<Score::euclidean>)->Apply(shapes)->Name("attention/euclidean");
BENCHMARK(attention_step<Score::scaled_dot>)->Apply(shapes)->Name("attention/dot");

}  // namespace
}  // namespace gradus::bench
