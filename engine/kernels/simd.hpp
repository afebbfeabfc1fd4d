#pragma once
// SIMD vectors of the instruction set this file is compiled for, over xsimd 8.1 and newer. Only kernel implementations include it.
// xsimd's fma, fms, fnma, select, sqrt, abs and copysign are used as they are; `batch_bool ^` and its maths are not (wrong in places).
// Everything here has internal linkage, so that objects of different instruction sets share no code.

#include <cstddef>
#include <cstdint>
#include <type_traits>
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

/// p[0..n) padded with `fill`; 0 <= n <= width. Reads nothing beyond p[n). The tail of a span then takes the same instructions as
/// its body, so that a result does not depend on where in the span an element lies.
template <class T>
GRADUS_INLINE Vec<T> load_partial(const T* p, index_t n, T fill) {
  alignas(64) T buffer[width<T>];
  Vec<T>(fill).store_aligned(buffer);
  for (index_t i = 0; i < n; ++i) buffer[i] = p[i];
  return Vec<T>::load_aligned(buffer);
}
/// Writes the first n elements; 0 <= n <= width.
template <class T>
GRADUS_INLINE void store_partial(T* p, const Vec<T>& v, index_t n) {
  alignas(64) T buffer[width<T>];
  v.store_aligned(buffer);
  for (index_t i = 0; i < n; ++i) p[i] = buffer[i];
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

/// -x for every x; xsimd's own gives +0 for +0 on some instruction sets.
template <class T>
GRADUS_INLINE Vec<T> negate(const Vec<T>& x) {
  return from_bits<T>(to_bits(x) ^ Vec<UInt<T>>(sign_bit<T>));
}
template <class T>
GRADUS_INLINE Mask<T> is_nan(const Vec<T>& x) {
  return x != x;
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
    alignas(64) T buffer[lane_count];
    splat(fill).store(buffer);
    for (index_t i = 0; i < n; ++i) buffer[i] = p[i];
    return load(buffer);
  }
  GRADUS_INLINE void store(T* p) const {
    for (index_t i = 0; i < vectors; ++i) v[i].store_unaligned(p + i * width<T>);
  }
  /// Writes the first n lanes; 0 <= n <= 16.
  GRADUS_INLINE void store_partial(T* p, index_t n) const {
    alignas(64) T buffer[lane_count];
    store(buffer);
    for (index_t i = 0; i < n; ++i) p[i] = buffer[i];
  }
};

template <class Op, class T>
GRADUS_INLINE Lanes<T> combine(const Lanes<T>& a, const Lanes<T>& b) {
  Lanes<T> r;
  for (index_t i = 0; i < Lanes<T>::vectors; ++i) r.v[i] = Op::apply(a.v[i], b.v[i]);
  return r;
}

/// Merges the lanes: i with i + 8, then i + 4, i + 2, i + 1.
template <class Op, class T>
GRADUS_INLINE T merge_lanes(const Lanes<T>& lanes) {
  Lanes<T> r = lanes;
  for (index_t half = Lanes<T>::vectors / 2; half > 0; half /= 2)
    for (index_t i = 0; i < half; ++i) r.v[i] = Op::apply(r.v[i], r.v[i + half]);
  // Within a vector the upper half is brought down through memory; what lies above it is not used.
  alignas(64) T buffer[2 * width<T>] = {};
  Vec<T> v = r.v[0];
  for (index_t half = width<T> / 2; half > 0; half /= 2) {
    v.store_aligned(buffer);
    v = Op::apply(v, Vec<T>::load_unaligned(buffer + half));
  }
  v.store_aligned(buffer);
  return buffer[0];
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
