#pragma once
// Drivers between tensors and kernels: strides, broadcasting, threads. Kernels see contiguous or constant runs only; an operand
// with another inner stride is copied first, so a result depends on logical values alone, never on layout.

#include "engine/kernels/kernels.hpp"
#include "engine/tensor/tensor.hpp"

namespace gradus::compute {

/// Elements per chunk of a parallel elementwise loop: about 30 microseconds of the cheapest op.
inline constexpr index_t elementwise_grain = 1 << 15;

/// out = op(x), element by element. Floating dtypes; out is contiguous with x's shape.
void unary(kernels::Unary op, const Tensor& x, Tensor& out);
/// out = op(a, b) with broadcasting to out's shape. f32, f64; add, sub, mul, minimum, maximum also on i64.
void binary(kernels::Binary op, const Tensor& a, const Tensor& b, Tensor& out);
/// out (bool) = a op b with broadcasting. Any dtype.
void compare(kernels::Compare op, const Tensor& a, const Tensor& b, Tensor& out);
/// out = condition ? a : b with broadcasting; condition is bool. Any dtype.
void select(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out);
/// out = x converted to out's dtype. NaN or a number outside int64 to i64 is a ValueError.
void cast(const Tensor& x, Tensor& out);

/// Reduces x over sorted, normalised axes into the contiguous `out`. The order of summation is the fixed tree of
/// kernels/reduce.hpp over the row-major index along the reduced axes. Reducing zero elements gives sum 0 and prod 1; max and
/// min must not be asked for that.
void reduce(kernels::Reduction op, const Tensor& x, const Dims& axes, Tensor& out);
/// Index (i64) of the greatest or least element along one axis; ties give the lowest index, NaN wins.
void arg_reduce(bool greatest, const Tensor& x, int axis, Tensor& out);

/// Calls f(first_row, rows) in parallel over chunks of rows of about `elements` elements each.
template <class F>
void parallel_rows(index_t rows, index_t row_length, F&& f);

}  // namespace gradus::compute

#include "engine/core/parallel.hpp"

template <class F>
void gradus::compute::parallel_rows(index_t rows, index_t row_length, F&& f) {
  const index_t grain = row_length >= elementwise_grain / 2 ? 1 : elementwise_grain / 2 / (row_length > 0 ? row_length : 1);
  parallel_for(rows, grain, [&](index_t begin, index_t end) { f(begin, end - begin); });
}
