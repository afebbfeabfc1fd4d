// Matrix products. Run with --benchmark_filter=gemm; GRADUS_ISA and GRADUS_THREADS apply. `limit` is the fraction of the fma limit
// of all threads together.

#include <benchmark/benchmark.h>

#include <vector>

#include "bench/machine.hpp"
#include "engine/core/parallel.hpp"
#include "engine/kernels/kernels.hpp"

namespace gradus::bench {
namespace {

// Arguments: m, n, k, A transposed, B transposed, batch.
template <class T>
void gemm(benchmark::State& state) {
  const index_t m = state.range(0), n = state.range(1), k = state.range(2), batch = state.range(5);
  const bool a_transposed = state.range(3) != 0, b_transposed = state.range(4) != 0;
  const std::vector<T> a(static_cast<std::size_t>(batch * m * k), T{1.5}), b(static_cast<std::size_t>(batch * k * n), T{0.5});
  std::vector<T> c(static_cast<std::size_t>(batch * m * n));
  const kernels::GemmArgs<T> args{.m = m,
                                  .n = n,
                                  .k = k,
                                  .a = a.data(),
                                  .a_row = a_transposed ? 1 : k,
                                  .a_col = a_transposed ? m : 1,
                                  .b = b.data(),
                                  .b_row = b_transposed ? 1 : n,
                                  .b_col = b_transposed ? k : 1,
                                  .c = c.data(),
                                  .c_row = n,
                                  .batch = batch,
                                  .a_batch = m * k,
                                  .b_batch = k * n,
                                  .c_batch = m * n};
  for (auto _ : state) {
    kernels::active<T>().gemm.gemm(args);
    benchmark::ClobberMemory();
  }
  const double flop = 2.0 * static_cast<double>(batch * m * n) * static_cast<double>(k) * static_cast<double>(state.iterations());
  state.counters["FLOP/s"] = benchmark::Counter(flop, benchmark::Counter::kIsRate);
  if (const double limit = fma_limit<T>() * thread_count(); limit > 0) state.counters["limit"] = benchmark::Counter(flop / limit, benchmark::Counter::kIsRate);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"m", "n", "k", "At", "Bt", "batch"})->UseRealTime()->Unit(benchmark::kMicrosecond);
  for (const index_t size : {16, 64, 128, 256, 512, 1024}) b->Args({size, size, size, 0, 0, 1});
  for (const int transposed : {1, 2, 3}) b->Args({512, 512, 512, transposed & 1, transposed >> 1, 1});
  b->Args({4096, 768, 768, 0, 1, 1});                                    // a linear layer
  b->Args({128, 512, 4096, 1, 0, 1})->Args({32, 16, 1000000, 1, 0, 1});  // a weight gradient, sums of clusters
  b->Args({1000000, 32, 16, 0, 1, 1})->Args({100, 10, 10, 0, 0, 256});   // scores of k-means, a batch of small ones
  b->Args({128, 128, 64, 0, 1, 64})->Args({128, 64, 128, 0, 0, 64});     // attention: scores, weighted values
  b->Args({1000, 1, 1000, 0, 0, 1})->Args({1, 1000, 1000, 0, 1, 1});     // matrix by vector
}
BENCHMARK(gemm<float>)->Apply(shapes);
BENCHMARK(gemm<double>)->Apply(shapes);

}  // namespace
}  // namespace gradus::bench
