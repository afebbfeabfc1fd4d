#pragma once
// Reductions in a fixed tree, so that neither the memory layout nor threads nor the vector width change a bit of the result.
//
// The tree over n elements in order: element i belongs to lane i mod 16 and to block i / 256. A block's lanes start from the
// reduction's identity (0, 1, -inf, inf) and take their elements in order. Blocks are merged lane by lane in pairs of equal size (as a
// binary counter carries; what is left over is merged from the last to the first). In the end lane i is merged with i + 8, then i + 4,
// i + 2 and i + 1.
//
// A driver may cut the n elements at multiples of `segment_length`, reduce the segments apart (`rows_partial`, `columns_partial`: 16
// lanes each) and `merge` them: the tree, and so the result, stays the same. `columns` needs that cut for n > segment_length; `rows`
// never does.

#include "engine/core/dtype.hpp"

namespace gradus::kernels {

/// Elements of a block, and the longest reduction that the kernels for columns take at once.
inline constexpr index_t block_length = 256;
inline constexpr index_t segment_length = 64 * block_length;
/// Partial results per reduction that `rows_partial` and `columns_partial` leave.
inline constexpr index_t reduction_lanes = 16;

/// max and min are NaN when an element is.
enum class Reduction : std::uint8_t { sum, prod, max, min, count };

/// Zero elements give the identity.
template <class T>
struct ReductionKernels {
  /// y[r] = reduction of x[r * row_stride + (0..n)).
  void (*rows)(const T* x, index_t rows, index_t n, index_t row_stride, T* y);
  /// y[j] = reduction over i < n of x[i * stride + j], j < inner; n <= segment_length.
  void (*columns)(const T* x, index_t n, index_t stride, index_t inner, T* y);
  /// lanes[0..16) of one segment of a row; n <= segment_length.
  void (*rows_partial)(const T* x, index_t n, T* lanes);
  /// lanes[l * inner + j] of one segment of columns; n <= segment_length.
  void (*columns_partial)(const T* x, index_t n, index_t stride, index_t inner, T* lanes);
  /// y[j] from the lanes of consecutive segments, (segments, 16, inner); all but the last are segment_length long.
  void (*merge)(const T* lanes, index_t segments, index_t inner, T* y);
};

template <class T>
struct ReduceKernels {
  ReductionKernels<T> reductions[static_cast<std::size_t>(Reduction::count)];
  /// y[r] = index of the greatest (least) of x[r * row_stride + (0..n)), n >= 1; the lowest of ties; the first NaN, if there is one.
  void (*argmax)(const T* x, index_t rows, index_t n, index_t row_stride, index_t* y);
  void (*argmin)(const T* x, index_t rows, index_t n, index_t row_stride, index_t* y);

  [[nodiscard]] const ReductionKernels<T>& operator[](Reduction kind) const { return reductions[static_cast<std::size_t>(kind)]; }
};

}  // namespace gradus::kernels
