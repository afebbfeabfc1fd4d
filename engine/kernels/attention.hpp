#pragma once
// Rows of a block of attention scores: their weights, going forward and back, and what drops them. Matrices are contiguous; sums along
// a row follow the tree of reduce.hpp. All run on the calling thread and need no memory.

#include "engine/core/dtype.hpp"

namespace gradus::kernels {

/// One block of keys more in the softmax of `rows` queries. With z = scale * scores and m the greatest z so far (`top`), weights relative
/// to m are e^{z - m}, and `total` their sum; what was computed relative to an older m is to be multiplied by `correction`.
/// top starts from -inf and total from 0. NaN or +inf in a row make its total NaN.
template <class T>
struct SoftmaxBlock {
  index_t rows = 0, n = 0;
  T scale = 1;
  const T* scores = nullptr;    ///< (rows, n)
  const T* survival = nullptr;  ///< (rows, n) factors of the weights after the sum, or null
  T* weights = nullptr;         ///< (rows, n), may be the scores
  T* top = nullptr;             ///< (rows), and so the others
  T* total = nullptr;
  T* correction = nullptr;
};

/// The softmax of a block once all sums are known, and its gradient: w = e^{(scale scores - top) - logarithm},
/// gradient = slope w (survival upstream - mean), weights = survival w. Where w is 0 or survival is, nothing else is looked at.
template <class T>
struct SoftmaxBlockBackward {
  index_t rows = 0, n = 0;
  T scale = 1, slope = 1;
  const T* scores = nullptr;    ///< (rows, n)
  const T* survival = nullptr;  ///< (rows, n) or null
  T* weights = nullptr;         ///< (rows, n), may be the scores
  T* upstream = nullptr;        ///< (rows, n) dL/dweights, becomes the gradient of the scores
  const T* top = nullptr;       ///< (rows): not -inf
  const T* logarithm = nullptr;
  const T* mean = nullptr;
};

/// Dropout: of a random stream (Random::seed and stream_key), with the survival_threshold of its probability.
template <class T>
struct Survival {
  std::uint64_t seed, stream_key;
  std::uint32_t threshold;
  T factor;
};

template <class T>
struct AttentionKernels {
  void (*softmax_block)(const SoftmaxBlock<T>&);
  void (*softmax_block_backward)(const SoftmaxBlockBackward<T>&);
  /// y_i *= factor_i for rows of n elements; a row with factor 1 is not touched.
  void (*scale_rows)(T* y, index_t rows, index_t n, const T* factors);
  /// y_i = sum_j a_ij b_ij, where a_ij is 0 without a look at b_ij.
  void (*dot_rows)(const T* a, const T* b, index_t rows, index_t n, T* y);
  /// y_i = 2 (x_i sums_i - y_i) for rows of n elements, x_row apart in x. With `hidden`, -2 y_i where sums_i is 0: x_i is not looked at.
  void (*finish_distances)(const T* x, index_t x_row, const T* sums, index_t rows, index_t n, bool hidden, T* y);
  /// sums_j += sum_i x_ij, in the order of i.
  void (*add_columns)(const T* x, index_t rows, index_t n, T* sums);
  /// out[r * n + i] = factor where element first + r * stride + i of a stream survives, else 0; see Random::survives.
  void (*survival)(const Survival<T>&, std::uint64_t first, index_t stride, index_t rows, index_t n, T* out);
};

}  // namespace gradus::kernels
