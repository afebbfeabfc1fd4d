#include "bench/machine.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tuple>

#include "engine/core/parallel.hpp"
#include "engine/kernels/kernels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gradus::bench {
namespace {

constexpr long rounds = 100000;
constexpr int chains = 12;  // more than latency times units

#if defined(__x86_64__)
// The empty assembly keeps the accumulators in registers and the compiler from folding the loop. A function a vector type, since
// the instruction set of a function template cannot depend on its arguments.
#define GRADUS_FMA_LOOP(name, isa, Vector, set1, fmadd)                 \
  __attribute__((target(isa))) void name() {                            \
    Vector a[chains];                                                   \
    const Vector x = set1(0.999f), y = set1(0.001f);                    \
    _Pragma("GCC unroll 12") for (int i = 0; i < chains; ++i) a[i] = y; \
    for (long r = 0; r < rounds; ++r) {                                 \
      _Pragma("GCC unroll 12") for (int i = 0; i < chains; ++i) {       \
        a[i] = fmadd(a[i], x, y);                                       \
        asm volatile("" : "+v"(a[i]));                                  \
      }                                                                 \
    }                                                                   \
  }
GRADUS_FMA_LOOP(fma_avx2_f32, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps)
GRADUS_FMA_LOOP(fma_avx2_f64, "avx2,fma", __m256d, _mm256_set1_pd, _mm256_fmadd_pd)
GRADUS_FMA_LOOP(fma_avx512_f32, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps)
GRADUS_FMA_LOOP(fma_avx512_f64, "avx512f", __m512d, _mm512_set1_pd, _mm512_fmadd_pd)
#undef GRADUS_FMA_LOOP
#endif

// `amount` per second of work(), the best of several runs, for the limit is what nothing disturbs.
template <class F>
double best_rate(double amount, int runs, F&& work) {
  double best = 0;
  for (int run = 0; run < runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, amount / took.count());
  }
  return best;
}

double fma_rate(void (*loop)(), int lanes) { return best_rate(2.0 * chains * lanes * static_cast<double>(rounds), 50, loop); }

// Calls f(thread) on every thread at once.
template <class F>
void on_all_threads(F&& f) {
  parallel_for(thread_count(), 1, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) f(i);
  });
}

#if defined(__x86_64__)
// The sum of a span, in enough chains that only loads are waited for.
__attribute__((target("avx2"))) float read_all(const float* x, index_t n) {
  __m256 a[8] = {};
  for (index_t i = 0; i + 64 <= n; i += 64)
    for (int j = 0; j < 8; ++j) a[j] = _mm256_add_ps(a[j], _mm256_loadu_ps(x + i + 8 * j));
  for (int j = 1; j < 8; ++j) a[0] = _mm256_add_ps(a[0], a[j]);
  return a[0][0];
}
#endif

}  // namespace

template <>
double fma_limit<float>() {
#if defined(__x86_64__)
  static const double limit = kernels::active_isa() == kernels::Isa::avx512 ? fma_rate(fma_avx512_f32, 16)
                              : kernels::active_isa() == kernels::Isa::avx2 ? fma_rate(fma_avx2_f32, 8)
                                                                            : 0;
  return limit;
#else
  return 0;
#endif
}

template <>
double fma_limit<double>() {
#if defined(__x86_64__)
  static const double limit = kernels::active_isa() == kernels::Isa::avx512 ? fma_rate(fma_avx512_f64, 8)
                              : kernels::active_isa() == kernels::Isa::avx2 ? fma_rate(fma_avx2_f64, 4)
                                                                            : 0;
  return limit;
#else
  return 0;
#endif
}

std::vector<Limit> machine_limits() {
  std::vector<Limit> limits;
  const double threads = thread_count();
#if defined(__x86_64__)
  const bool wide = kernels::active_isa() == kernels::Isa::avx512;
  const auto fma = [&](void (*loop)(), int lanes) {
    return best_rate(threads * 2 * chains * lanes * static_cast<double>(rounds), 20, [&] { on_all_threads([&](index_t) { loop(); }); });
  };
  if (kernels::active_isa() != kernels::Isa::baseline) {
    limits.push_back({"fma_f32", wide ? fma(fma_avx512_f32, 16) : fma(fma_avx2_f32, 8)});
    limits.push_back({"fma_f64", wide ? fma(fma_avx512_f64, 8) : fma(fma_avx2_f64, 4)});
    constexpr std::tuple<const char*, const char*, index_t> sizes[] = {
        {"read_16K", "copy_16K", 16 << 10}, {"read_512K", "copy_512K", 512 << 10}, {"read_8M", "copy_8M", 8 << 20}, {"read_512M", "copy_512M", 512 << 20}};
    for (const auto& [read, copy, bytes] : sizes) {
      std::vector<std::vector<float>> spans(static_cast<std::size_t>(threads), std::vector<float>(static_cast<std::size_t>(bytes) / 4));
      const index_t half = bytes / 8, times = std::max<index_t>(1, (16 << 20) / bytes);
      const double amount = threads * static_cast<double>(bytes * times);
      const auto each = [&](const auto& f) {
        return best_rate(amount, 7, [&] {
          on_all_threads([&](index_t i) {
            for (index_t t = 0; t < times; ++t) f(spans[static_cast<std::size_t>(i)]);
          });
        });
      };
      limits.push_back({read, each([](std::vector<float>& x) {
                          const float sum = read_all(x.data(), static_cast<index_t>(x.size()));
                          asm volatile("" : : "x"(sum));
                        })});
      limits.push_back({copy, each([half](std::vector<float>& x) {
                          std::memcpy(x.data(), x.data() + half, static_cast<std::size_t>(half) * 4);
                          asm volatile("" : : "g"(x.data()) : "memory");
                        })});
    }
  }
#endif
  return limits;
}

}  // namespace gradus::bench
