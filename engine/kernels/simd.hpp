#pragma once
// SIMD vectors of the instruction set this file is compiled for, over xsimd 8.1 and newer. Only kernel implementations include it.
// xsimd's arithmetic, `<`, `==`, select, sqrt, abs, copysign and integer operations are used as they are. Not used, since some version
// is wrong on some instruction set: fma and its kin (two roundings on AVX-512), `!=` (false for NaN on AVX), unary minus, `^` on masks, and
// its mathematical functions.
// Everything here has internal linkage, so that objects of different instruction sets share no code.

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <xsimd/xsimd.hpp>

#include "engine/core/dtype.hpp"

#ifdef __FAST_MATH__
#error "gradus kernels rely on NaN, infinities and the order of operations; build without -ffast-math"
#endif

#define GRADUS_INLINE [[gnu::always_inline]] inline
// The same for a lambda, after its parameters.
#define GRADUS_INLINE_LAMBDA __attribute__((always_inline))

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

#if defined(GRADUS_ISA_AVX512)
using Arch = xsimd::avx512bw;
#elif defined(GRADUS_ISA_AVX2)
using Arch = xsimd::fma3<xsimd::avx2>;
#elif defined(__aarch64__)
using Arch = xsimd::neon64;
#elif defined(__SSE2__)
using Arch = xsimd::sse2;
#else
#error "gradus has kernels for x86-64 and 64-bit ARM"
#endif

/// False where fma(a, b, c) rounds twice: algorithms that need an exact product must split instead.
#if defined(__FMA__) || defined(__aarch64__)
constexpr bool has_fma = true;
#else
constexpr bool has_fma = false;
#endif

/// A register of T: float, double or the integers of their sizes.
template <class T>
using Vec = xsimd::batch<T, Arch>;
template <class T>
using Mask = xsimd::batch_bool<T, Arch>;
/// Elements of a Vec<T>.
template <class T>
constexpr index_t width = static_cast<index_t>(Vec<T>::size);

/// Unsigned and signed integers as wide as T.
template <class T>
using UInt = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
template <class T>
using SInt = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

template <class T>
GRADUS_INLINE Vec<T> load(const T* p) {
  return Vec<T>::load_unaligned(p);
}
template <class T>
GRADUS_INLINE void store(T* p, const Vec<T>& v) {
  v.store_unaligned(p);
}
template <class T>
GRADUS_INLINE Vec<T> splat(T v) {
  return Vec<T>(v);
}

/// True for the first n elements, 0 <= n <= width.
template <class T>
GRADUS_INLINE Mask<T> first_mask(index_t n) {
  alignas(64) static constexpr T index[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return Vec<T>::load_aligned(index) < Vec<T>(static_cast<T>(n));
}

/// p[0..n) padded with `fill`; 0 <= n <= width. Reads nothing beyond p[n). The tail of a span then takes the same instructions as
/// its body, so that a result does not depend on where in the span an element lies.
template <class T>
GRADUS_INLINE Vec<T> load_partial(const T* p, index_t n, T fill) {
#if defined(GRADUS_ISA_AVX512)
  const auto mask = static_cast<unsigned>((1 << n) - 1);
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm512_mask_loadu_ps(_mm512_set1_ps(fill), static_cast<__mmask16>(mask), p));
  else return Vec<T>(_mm512_mask_loadu_pd(_mm512_set1_pd(fill), static_cast<__mmask8>(mask), p));
#elif defined(GRADUS_ISA_AVX2)
  const Mask<T> mask = first_mask<T>(n);
  const auto bits = (__m256i) static_cast<typename Mask<T>::register_type>(mask);
  if constexpr (sizeof(T) == 4) return xsimd::select(mask, Vec<T>(_mm256_maskload_ps(p, bits)), Vec<T>(fill));
  else return xsimd::select(mask, Vec<T>(_mm256_maskload_pd(p, bits)), Vec<T>(fill));
#else
  alignas(64) T buffer[width<T>];
  Vec<T>(fill).store_aligned(buffer);
  for (index_t i = 0; i < n; ++i) buffer[i] = p[i];
  return Vec<T>::load_aligned(buffer);
#endif
}
/// Writes the first n elements; 0 <= n <= width.
template <class T>
GRADUS_INLINE void store_partial(T* p, const Vec<T>& v, index_t n) {
#if defined(GRADUS_ISA_AVX512)
  const auto mask = static_cast<unsigned>((1 << n) - 1);
  if constexpr (sizeof(T) == 4) _mm512_mask_storeu_ps(p, static_cast<__mmask16>(mask), v);
  else _mm512_mask_storeu_pd(p, static_cast<__mmask8>(mask), v);
#elif defined(GRADUS_ISA_AVX2)
  const auto bits = (__m256i) static_cast<typename Mask<T>::register_type>(first_mask<T>(n));
  if constexpr (sizeof(T) == 4) _mm256_maskstore_ps(p, bits, v);
  else _mm256_maskstore_pd(p, bits, v);
#else
  alignas(64) T buffer[width<T>];
  v.store_aligned(buffer);
  for (index_t i = 0; i < n; ++i) p[i] = buffer[i];
#endif
}

/// a * b + c and c - a * b; rounded once where has_fma, by instruction, whatever xsimd makes of it.
template <class T>
GRADUS_INLINE Vec<T> fma(const Vec<T>& a, const Vec<T>& b, const Vec<T>& c) {
#if defined(GRADUS_ISA_AVX512)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm512_fmadd_ps(a, b, c));
  else return Vec<T>(_mm512_fmadd_pd(a, b, c));
#elif defined(GRADUS_ISA_AVX2)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm256_fmadd_ps(a, b, c));
  else return Vec<T>(_mm256_fmadd_pd(a, b, c));
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4) return Vec<T>(vfmaq_f32(c, a, b));
  else return Vec<T>(vfmaq_f64(c, a, b));
#else
  return a * b + c;
#endif
}
template <class T>
GRADUS_INLINE Vec<T> fnma(const Vec<T>& a, const Vec<T>& b, const Vec<T>& c) {
#if defined(GRADUS_ISA_AVX512)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm512_fnmadd_ps(a, b, c));
  else return Vec<T>(_mm512_fnmadd_pd(a, b, c));
#elif defined(GRADUS_ISA_AVX2)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm256_fnmadd_ps(a, b, c));
  else return Vec<T>(_mm256_fnmadd_pd(a, b, c));
#elif defined(__aarch64__)
  if constexpr (sizeof(T) == 4) return Vec<T>(vfmsq_f32(c, a, b));
  else return Vec<T>(vfmsq_f64(c, a, b));
#else
  return c - a * b;
#endif
}

// The registers are converted directly: xsimd's own bitwise_cast changed its template parameters between versions.
template <class To, class From>
GRADUS_INLINE Vec<To> bit_cast_to(const Vec<From>& v) {
  static_assert(sizeof(To) == sizeof(From));
  return Vec<To>((typename Vec<To>::register_type)(static_cast<typename Vec<From>::register_type>(v)));
}
/// The bit pattern of a floating-point vector, and back.
template <class T>
GRADUS_INLINE Vec<UInt<T>> to_bits(const Vec<T>& v) {
  return bit_cast_to<UInt<T>>(v);
}
template <class T>
GRADUS_INLINE Vec<T> from_bits(const Vec<UInt<T>>& v) {
  return bit_cast_to<T>(v);
}

template <class T>
constexpr UInt<T> sign_bit = UInt<T>{1} << (8 * sizeof(T) - 1);

/// -x for every x, zeros included.
template <class T>
GRADUS_INLINE Vec<T> negate(const Vec<T>& x) {
  return from_bits<T>(to_bits(x) ^ Vec<UInt<T>>(sign_bit<T>));
}
template <class T>
GRADUS_INLINE Mask<T> is_nan(const Vec<T>& x) {
  return xsimd::isnan(x);
}

/// a > b ? a : b and a < b ? a : b: the second where one is NaN or both are zeros.
template <class T>
GRADUS_INLINE Vec<T> greater_of(const Vec<T>& a, const Vec<T>& b) {
#if defined(GRADUS_ISA_AVX512)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm512_max_ps(a, b));
  else return Vec<T>(_mm512_max_pd(a, b));
#elif defined(GRADUS_ISA_AVX2)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm256_max_ps(a, b));
  else return Vec<T>(_mm256_max_pd(a, b));
#else
  return select(a > b, a, b);
#endif
}
template <class T>
GRADUS_INLINE Vec<T> less_of(const Vec<T>& a, const Vec<T>& b) {
#if defined(GRADUS_ISA_AVX512)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm512_min_ps(a, b));
  else return Vec<T>(_mm512_min_pd(a, b));
#elif defined(GRADUS_ISA_AVX2)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm256_min_ps(a, b));
  else return Vec<T>(_mm256_min_pd(a, b));
#else
  return select(a < b, a, b);
#endif
}

/// Larger and smaller of two; NaN from either side propagates, and +0 is larger than -0.
template <class T>
GRADUS_INLINE Vec<T> maximum(const Vec<T>& a, const Vec<T>& b) {
  const Vec<T> larger = select((a > b) | is_nan(a), a, b);
  return select(a == b, from_bits<T>(to_bits(a) & to_bits(b)), larger);
}
template <class T>
GRADUS_INLINE Vec<T> minimum(const Vec<T>& a, const Vec<T>& b) {
  const Vec<T> smaller = select((a < b) | is_nan(a), a, b);
  return select(a == b, from_bits<T>(to_bits(a) | to_bits(b)), smaller);
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
