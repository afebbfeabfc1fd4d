#pragma once
// Rows normalised by their own mean and variance (layer norm) or mean square (RMS norm), with weights and biases that all rows share.
// Sums along a row follow the tree of reduce.hpp. All run on the calling thread and need no memory.

#include "engine/core/dtype.hpp"

namespace gradus::kernels {

/// y = (x - m) s weight + bias with s = 1 / sqrt(mean((x - m)^2) + eps), m being the mean of the row or, unless centred, 0.
template <class T>
struct RowNormArgs {
  index_t rows = 0, n = 0;
  T eps = 0;
  bool centred = true;
  const T* x = nullptr;       ///< (rows, n), and so y and the gradients
  const T* weight = nullptr;  ///< (n) or null
  const T* bias = nullptr;    ///< (n) or null
};

template <class T>
struct NormKernels {
  void (*rows)(const RowNormArgs<T>&, T* y);
  /// gx from g; the gradients of weight and bias are added to gw and gb, in the order of the rows. Each may be null.
  void (*rows_backward)(const RowNormArgs<T>&, const T* g, T* gx, T* gw, T* gb);
};

}  // namespace gradus::kernels
