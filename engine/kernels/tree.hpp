#pragma once
// The summation tree of reduce.hpp along one row. Only kernel implementations include it; internal linkage, see simd.hpp.

#include "engine/kernels/reduce.hpp"
#include "engine/kernels/simd.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

/// Operations of reductions with the value that changes nothing.
struct Sum {
  template <class T>
  static constexpr T identity = 0;
  template <class V>
  GRADUS_INLINE static V apply(const V& a, const V& b) {
    return a + b;
  }
};
struct Product {
  template <class T>
  static constexpr T identity = 1;
  template <class V>
  GRADUS_INLINE static V apply(const V& a, const V& b) {
    return a * b;
  }
};
struct Greatest {
  template <class T>
  static constexpr T identity = -static_cast<T>(__builtin_inf());
  template <class V>
  GRADUS_INLINE static V apply(const V& a, const V& b) {
    return maximum(a, b);
  }
};
struct Least {
  template <class T>
  static constexpr T identity = static_cast<T>(__builtin_inf());
  template <class V>
  GRADUS_INLINE static V apply(const V& a, const V& b) {
    return minimum(a, b);
  }
};

/// The greatest where nothing is NaN; with a NaN anything, for callers that see it elsewhere.
struct GreatestNumber {
  template <class T>
  static constexpr T identity = -static_cast<T>(__builtin_inf());
  template <class T>
  GRADUS_INLINE static Vec<T> apply(const Vec<T>& a, const Vec<T>& b) {
    return greater_of(a, b);
  }
  template <class T>
  GRADUS_INLINE static T apply(T a, T b) {
    return a > b ? a : b;
  }
};

/// Lanes of a reduction, whatever the width of a vector: element i of a span belongs to lane i mod 16.
constexpr index_t lane_count = reduction_lanes;

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

/// Results of blocks, merged as they come like the carries of a binary counter.
template <class Op, class T>
class BlockTree {
 public:
  GRADUS_INLINE void push(Lanes<T> block) {
    for (index_t carry = blocks_++; (carry & 1) != 0; carry >>= 1) block = combine<Op>(levels_[--depth_], block);
    levels_[depth_++] = block;
  }
  /// All of them, or the identity if there were none.
  [[nodiscard]] GRADUS_INLINE Lanes<T> finish() const {
    if (depth_ == 0) return Lanes<T>::splat(Op::template identity<T>);
    Lanes<T> r = levels_[depth_ - 1];
    for (index_t i = depth_ - 2; i >= 0; --i) r = combine<Op>(levels_[i], r);
    return r;
  }

 private:
  Lanes<T> levels_[48];  // for spans of up to 2^55 elements
  index_t depth_ = 0, blocks_ = 0;
};

/// The lanes of n elements. full(i) gives the lanes of the 16 elements from i on, part(i, count) those of the last `count` < 16, padded
/// with the identity.
template <class Op, class T, class Full, class Part>
GRADUS_INLINE Lanes<T> reduce_lanes(index_t n, Full&& full, Part&& part) {
  const Lanes<T> identity = Lanes<T>::splat(Op::template identity<T>);
  BlockTree<Op, T> tree;
  for (index_t start = 0; start < n; start += block_length) {
    const index_t end = n - start < block_length ? n : start + block_length;
    Lanes<T> sums = identity;
    index_t i = start;
    for (; i + lane_count <= end; i += lane_count) sums = combine<Op>(sums, full(i));
    if (i < end) sums = combine<Op>(sums, part(i, end - i));
    if (n <= block_length) return sums;
    tree.push(sums);
  }
  return tree.finish();
}
template <class Op, class T, index_t flight, class Full, class Part>
GRADUS_INLINE Lanes<T> reduce_lanes(index_t n, Full&& full, Part&& part) {
  return reduce_lanes<Op, T, flight>(n, full, part, [](index_t) {});
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
