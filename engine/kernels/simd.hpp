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

#if defined(GRADUS_ISA_AVX2)
/// All bits set in the first n elements.
template <class T>
GRADUS_INLINE __m256i first_elements(index_t n) {
  if constexpr (sizeof(T) == 4) return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  else return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
#endif

/// p[0..n) padded with `fill`; 0 <= n <= width. Reads nothing beyond p[n). The tail of a span then takes the same instructions as
/// its body, so that a result does not depend on where in the span an element lies.
template <class T>
GRADUS_INLINE Vec<T> load_partial(const T* p, index_t n, T fill) {
#if defined(GRADUS_ISA_AVX512)
  const auto mask = static_cast<unsigned>((1 << n) - 1);
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm512_mask_loadu_ps(_mm512_set1_ps(fill), static_cast<__mmask16>(mask), p));
  else return Vec<T>(_mm512_mask_loadu_pd(_mm512_set1_pd(fill), static_cast<__mmask8>(mask), p));
#elif defined(GRADUS_ISA_AVX2)
  const __m256i mask = first_elements<T>(n);
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm256_blendv_ps(_mm256_set1_ps(fill), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask)));
  else return Vec<T>(_mm256_blendv_pd(_mm256_set1_pd(fill), _mm256_maskload_pd(p, mask), _mm256_castsi256_pd(mask)));
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
  if constexpr (sizeof(T) == 4) _mm256_maskstore_ps(p, first_elements<T>(n), v);
  else _mm256_maskstore_pd(p, first_elements<T>(n), v);
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

/// Binary operations of reductions.
struct Add {
  template <class T>
  GRADUS_INLINE static Vec<T> apply(const Vec<T>& a, const Vec<T>& b) {
    return a + b;
  }
};
struct Multiply {
  template <class T>
  GRADUS_INLINE static Vec<T> apply(const Vec<T>& a, const Vec<T>& b) {
    return a * b;
  }
};
struct Maximum {
  template <class T>
  GRADUS_INLINE static Vec<T> apply(const Vec<T>& a, const Vec<T>& b) {
    return maximum(a, b);
  }
};
struct Minimum {
  template <class T>
  GRADUS_INLINE static Vec<T> apply(const Vec<T>& a, const Vec<T>& b) {
    return minimum(a, b);
  }
};

/// Lanes of a reduction, whatever the width of a vector: element i of a span belongs to lane i mod 16.
constexpr index_t lane_count = 16;

/// Sixteen partial results, as one to eight vectors.
template <class T>
struct Lanes {
  static constexpr index_t vectors = lane_count / width<T>;
  Vec<T> v[vectors];

  GRADUS_INLINE static Lanes splat(T x) {
    Lanes r;
    for (index_t i = 0; i < vectors; ++i) r.v[i] = Vec<T>(x);
    return r;
  }
  GRADUS_INLINE static Lanes load(const T* p) {
    Lanes r;
    for (index_t i = 0; i < vectors; ++i) r.v[i] = Vec<T>::load_unaligned(p + i * width<T>);
    return r;
  }
  /// p[0..n) padded with `fill`; 0 <= n <= 16.
  GRADUS_INLINE static Lanes load_partial(const T* p, index_t n, T fill) {
    Lanes r;
    for (index_t i = 0; i < vectors; ++i) {
      const index_t left = n - i * width<T>;
      if (left >= width<T>) r.v[i] = Vec<T>::load_unaligned(p + i * width<T>);
      else r.v[i] = left > 0 ? GRADUS_KERNEL_ISA::load_partial<T>(p + i * width<T>, left, fill) : Vec<T>(fill);
    }
    return r;
  }
  GRADUS_INLINE void store(T* p) const {
    for (index_t i = 0; i < vectors; ++i) v[i].store_unaligned(p + i * width<T>);
  }
};

template <class Op, class T>
GRADUS_INLINE Lanes<T> combine(const Lanes<T>& a, const Lanes<T>& b) {
  Lanes<T> r;
  for (index_t i = 0; i < Lanes<T>::vectors; ++i) r.v[i] = Op::apply(a.v[i], b.v[i]);
  return r;
}

// The vector with its upper half brought down, `half` elements long; what lies above them is of no interest.
template <index_t half, class T, std::size_t... i>
GRADUS_INLINE Vec<T> upper_half(const Vec<T>& v, std::index_sequence<i...>) {
  const auto r = static_cast<typename Vec<T>::register_type>(v);
  return Vec<T>((typename Vec<T>::register_type)__builtin_shufflevector(r, r, (static_cast<index_t>(i) + half) % width<T>...));
}

template <class Op, index_t half, class T>
GRADUS_INLINE T fold(const Vec<T>& v) {
  const Vec<T> r = Op::apply(v, upper_half<half>(v, std::make_index_sequence<width<T>>()));
  if constexpr (half > 1) return fold<Op, half / 2>(r);
  else return static_cast<typename Vec<T>::register_type>(r)[0];
}

/// Merges the lanes: i with i + 8, then i + 4, i + 2, i + 1.
template <class Op, class T>
GRADUS_INLINE T merge_lanes(const Lanes<T>& lanes) {
  Lanes<T> r = lanes;
  for (index_t half = Lanes<T>::vectors / 2; half > 0; half /= 2)
    for (index_t i = 0; i < half; ++i) r.v[i] = Op::apply(r.v[i], r.v[i + half]);
  return fold<Op, width<T> / 2>(r.v[0]);
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
