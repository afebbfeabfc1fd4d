#include "engine/kernels/transpose.hpp"

#include "engine/kernels/transpose_square.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

// A whole square of width x width; the square below it in x is announced.
template <class T>
GRADUS_INLINE void square(const T* x, index_t x_stride, T* y, index_t y_stride) {
  Vec<T> r[width<T>];
#pragma GCC unroll 16
  for (index_t i = 0; i < width<T>; ++i) {
    __builtin_prefetch(x + (i + width<T>)*x_stride);
    r[i] = load(x + i * x_stride);
  }
  exchange_all<width<T> / 2>(r);
#pragma GCC unroll 16
  for (index_t i = 0; i < width<T>; ++i) store(y + i * y_stride, r[i]);
}

template <class T>
void edge(const T* x, index_t x_stride, index_t rows, index_t columns, T* y, index_t y_stride) {
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < columns; ++j) y[j * y_stride + i] = x[i * x_stride + j];
}

template <class T>
void transpose(const T* x, index_t x_stride, index_t rows, index_t columns, T* y, index_t y_stride) {
  const index_t w = width<T>, whole_rows = rows - rows % w, whole_columns = columns - columns % w;
  for (index_t j = 0; j < whole_columns; j += w)
    for (index_t i = 0; i < whole_rows; i += w) square(x + i * x_stride + j, x_stride, y + j * y_stride + i, y_stride);
  edge(x + whole_columns, x_stride, whole_rows, columns - whole_columns, y + whole_columns * y_stride, y_stride);
  edge(x + whole_rows * x_stride, x_stride, rows - whole_rows, columns, y + whole_rows, y_stride);
}

}  // namespace

extern const TransposeKernels<float> transpose_f32;
extern const TransposeKernels<double> transpose_f64;
const TransposeKernels<float> transpose_f32 = {transpose<float>};
const TransposeKernels<double> transpose_f64 = {transpose<double>};

}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
