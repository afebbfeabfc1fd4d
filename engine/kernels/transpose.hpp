#pragma once
// Transposed copies of matrices, a square of vectors at a time: memory is read and written in whole cache lines.

#include "engine/core/dtype.hpp"

namespace gradus::kernels {

/// Elements are moved, never changed; 8-byte integers go through the double table.
template <class T>
struct TransposeKernels {
  /// y[j * y_stride + i] = x[i * x_stride + j] for i < rows, j < columns. The two must not overlap.
  void (*transpose)(const T* x, index_t x_stride, index_t rows, index_t columns, T* y, index_t y_stride);
};

}  // namespace gradus::kernels
