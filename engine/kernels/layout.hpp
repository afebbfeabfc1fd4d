#pragma once
// Rearranging of elements, whatever they mean: only their size matters.

#include "engine/core/dtype.hpp"

namespace gradus::kernels {

template <class T>
struct LayoutKernels {
  /// y[j * y_row + i] = x[i * x_row + j] for i < rows, j < columns, on the calling thread.
  void (*transpose)(const T* x, index_t x_row, index_t rows, index_t columns, T* y, index_t y_row);
};

}  // namespace gradus::kernels
