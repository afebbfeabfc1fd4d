// One layer of the k-means transformer beside one iteration of Lloyd's algorithm.
#include <benchmark/benchmark.h>

#include "engine/autograd/gradcheck.hpp"
#include "models/kmeans/transformer.hpp"

using namespace gradus;

namespace {

const Tensor& points(index_t n, index_t d) {
  static const Tensor x = random_normal({n, d}, DType::f32, 1);
  return x;
}

void transformer_layer(benchmark::State& state) {
  const index_t n = state.range(0), d = state.range(1), k = state.range(2);
  const Tensor& x = points(n, d);
  const Tensor start = kmeans::initial_centres(x, k, kmeans::Start::random, Random(1));
  Tensor centres = start;
  for (auto _ : state) {
    kmeans::Trace trace = kmeans::run_transformer(x, centres, 1, {});
    centres = trace.centres.back();
    benchmark::DoNotOptimize(trace.objective.back());
  }
  // A run of one layer passes over the points twice: once for the layer, once for the objective of its result.
  state.counters["ms_per_layer"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * 2e-3, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(transformer_layer)->Args({1000000, 16, 32})->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
