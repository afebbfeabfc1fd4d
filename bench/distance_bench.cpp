// Distances and the pass of k-means. Run with --benchmark_filter=distance; GRADUS_ISA and GRADUS_THREADS apply. A pair of
// coordinates counts 3 operations (difference, multiplication, addition), in 2 instructions: the most that can be reached is 3/4
// of the fma limit.

#include <benchmark/benchmark.h>

#include <vector>

#include "engine/kernels/kernels.hpp"

namespace gradus::bench {
namespace {

enum class What { distances, nearest, assign, backward };

template <class T>
std::vector<T> spread(index_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  std::uint64_t state = 1;
  for (T& v : values) v = static_cast<T>((state = state * 6364136223846793005u + 1442695040888963407u) >> 40);
  return values;
}

// Arguments: points, centres, coordinates.
template <class T, What what>
void distance(benchmark::State& state) {
  const index_t n = state.range(0), k = state.range(1), d = state.range(2);
  const std::vector<T> x = spread<T>(n * d), c = spread<T>(k * d);
  std::vector<T> pairs(static_cast<std::size_t>(what == What::distances || what == What::backward ? n * k : 0)), gx(x.size()), gc(c.size());
  std::vector<T> least(static_cast<std::size_t>(n)), weights(static_cast<std::size_t>(k));
  std::vector<index_t> labels(static_cast<std::size_t>(n));
  double objective = 0;
  index_t tied = 0;
  const kernels::DistanceKernels<T>& table = kernels::active<T>().distance;
  for (auto _ : state) {
    if constexpr (what == What::distances)
      table.squared_distance({.n = n, .k = k, .d = d, .x = x.data(), .x_row = d, .c = c.data(), .c_row = d, .out = pairs.data(), .out_row = k});
    else if constexpr (what == What::nearest)
      table.nearest({.n = n, .k = k, .d = d, .x = x.data(), .x_row = d, .c = c.data(), .c_row = d, .index = labels.data(), .distance = least.data()});
    else if constexpr (what == What::assign)
      table.assign_accumulate({.n = n,
                               .k = k,
                               .d = d,
                               .x = x.data(),
                               .x_row = d,
                               .c = c.data(),
                               .c_row = d,
                               .tolerance = T{1e-6f},
                               .weights = weights.data(),
                               .sums = gc.data(),
                               .labels = labels.data(),
                               .objective = &objective,
                               .tied = &tied});
    else
      table.squared_distance_backward({.n = n,
                                       .k = k,
                                       .d = d,
                                       .x = x.data(),
                                       .x_row = d,
                                       .c = c.data(),
                                       .c_row = d,
                                       .g = pairs.data(),
                                       .g_row = k,
                                       .gx = gx.data(),
                                       .gx_row = d,
                                       .gc = gc.data(),
                                       .gc_row = d});
    benchmark::ClobberMemory();
  }
  const double per_pair = what == What::backward ? 5 : 3;
  state.counters["FLOP/s"] = benchmark::Counter(per_pair * static_cast<double>(n * k) * static_cast<double>(d), benchmark::Counter::kIsIterationInvariantRate);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"n", "k", "d"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  b->Args({1000000, 32, 16})->Args({100000, 256, 64})->Args({10000, 5, 2});
}
BENCHMARK(distance<float, What::distances>)->Apply(shapes)->Name("distance/pairs/f32");
BENCHMARK(distance<double, What::distances>)->Apply(shapes)->Name("distance/pairs/f64");
BENCHMARK(distance<float, What::nearest>)->Apply(shapes)->Name("distance/nearest/f32");
BENCHMARK(distance<double, What::nearest>)->Apply(shapes)->Name("distance/nearest/f64");
BENCHMARK(distance<float, What::assign>)->Apply(shapes)->Name("distance/assign/f32");
BENCHMARK(distance<double, What::assign>)->Apply(shapes)->Name("distance/assign/f64");
BENCHMARK(distance<float, What::backward>)->Apply(shapes)->Name("distance/backward/f32");
BENCHMARK(distance<double, What::backward>)->Apply(shapes)->Name("distance/backward/f64");

}  // namespace
}  // namespace gradus::bench
