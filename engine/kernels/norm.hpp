#pragma once
// Normalisation of rows, with and without centring (layer norm, RMS norm), and its gradient. All arrays are (rows, n), contiguous;
// weight and bias are one row for all, or null. Sums along a row follow the tree of reduce.hpp.

#include "engine/core/dtype.hpp"

namespace gradus::kernels {

template <class T>
struct RowNormArgs {
  const T* x;
  index_t rows, n;
  T eps;
  const T* weight;
};

template <class T>
struct RowNormKernels {
  /// y = (x - mean) / sqrt(var + eps) weight + bias.
  void (*layer_norm)(const RowNormArgs<T>& args, const T* bias, T* y);
  /// y = x / sqrt(mean(x^2) + eps) weight.
  void (*rms_norm)(const RowNormArgs<T>& args, const T* bias, T* y);
  /// gx for the arriving g, and gw[j] += sum of g times the normalised x, gb[j] += sum of g, row after row. Any of the three may
  /// be null; gx may be g.
  void (*layer_norm_backward)(const RowNormArgs<T>& args, const T* g, T* gx, T* gw, T* gb);
  void (*rms_norm_backward)(const RowNormArgs<T>& args, const T* g, T* gx, T* gw, T* gb);
};

}  // namespace gradus::kernels
