#include "bench/machine.hpp"

#include <algorithm>
#include <chrono>

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

// The best of several runs, for the limit is what nothing disturbs.
double best_rate(void (*loop)(), int lanes) {
  double best = 0;
  for (int run = 0; run < 50; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    loop();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, 2.0 * chains * lanes * static_cast<double>(rounds) / took.count());
  }
  return best;
}

}  // namespace

template <>
double fma_limit<float>() {
#if defined(__x86_64__)
  static const double limit = kernels::active_isa() == kernels::Isa::avx512 ? best_rate(fma_avx512_f32, 16)
                              : kernels::active_isa() == kernels::Isa::avx2 ? best_rate(fma_avx2_f32, 8)
                                                                            : 0;
  return limit;
#else
  return 0;
#endif
}

template <>
double fma_limit<double>() {
#if defined(__x86_64__)
  static const double limit = kernels::active_isa() == kernels::Isa::avx512 ? best_rate(fma_avx512_f64, 8)
                              : kernels::active_isa() == kernels::Isa::avx2 ? best_rate(fma_avx2_f64, 4)
                                                                            : 0;
  return limit;
#else
  return 0;
#endif
}

}  // namespace gradus::bench
