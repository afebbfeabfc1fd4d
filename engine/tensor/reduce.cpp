// Reduction drivers: any axes of any tensor as rows or columns of the kernels, in parallel, with the same tree throughout.
#include <algorithm>

#include "engine/tensor/compute.hpp"
#include "engine/tensor/view.hpp"

namespace gradus::compute {
namespace {

// A contiguous tensor read as (outer, n, inner), n being reduced.
struct Blocks {
  Tensor x;
  index_t outer = 1, n = 1, inner = 1;
};

Tensor with_axes_last(const Tensor& x, const Dims& axes) {
  Dims order;
  int next = 0;
  for (int i = 0; i < x.rank(); ++i) {
    if (next < axes.rank() && axes[next] == i) ++next;
    else order.push_back(i);
  }
  for (index_t axis : axes) order.push_back(axis);
  return view::permute(x, order);
}

// Reduced axes that lie side by side need no copy; others are brought to the end first.
Blocks as_blocks(const Tensor& x, const Dims& axes) {
  Blocks blocks;
  if (axes.empty()) {
    blocks.x = contiguous(x);
    blocks.outer = x.numel();
    return blocks;
  }
  const bool adjacent = axes.back() - axes[0] + 1 == axes.rank();
  blocks.x = contiguous(adjacent ? x : with_axes_last(x, axes));
  const int first = adjacent ? static_cast<int>(axes[0]) : x.rank() - axes.rank(), last = first + axes.rank() - 1;
  for (int i = 0; i < x.rank(); ++i) (i < first ? blocks.outer : i <= last ? blocks.n : blocks.inner) *= blocks.x.shape()[i];
  return blocks;
}

template <class T>
void reduce_rows(const kernels::ReductionKernels<T>& kernel, const T* x, index_t rows, index_t n, T* y) {
  if (rows > 4 || n <= kernels::segment_length) {
    parallel_rows(rows, n, [&](index_t row, index_t count) { kernel.rows(x + row * n, count, n, n, y + row); });
    return;
  }
  // Few long rows: their segments are reduced in parallel and merged.
  const index_t segments = (n - 1) / kernels::segment_length + 1, lanes = kernels::reduction_lanes;
  Tensor partial = Tensor::empty({rows, segments, lanes}, dtype_of<T>());
  T* to = partial.mutable_data<T>();
  parallel_for(rows * segments, 1, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      const index_t start = i % segments * kernels::segment_length;
      kernel.rows_partial(x + i / segments * n + start, std::min(kernels::segment_length, n - start), to + i * lanes);
    }
  });
  for (index_t r = 0; r < rows; ++r) kernel.merge(to + r * segments * lanes, segments, 1, y + r);
}

constexpr index_t column_strip = 256;  // columns per task: their 16 lanes of partial sums stay in the first-level cache

template <class T>
void reduce_columns(const kernels::ReductionKernels<T>& kernel, const T* x, index_t outer, index_t n, index_t inner, T* y) {
  const index_t strips = (inner - 1) / column_strip + 1, segments = std::max<index_t>(1, (n - 1) / kernels::segment_length + 1);
  const index_t lanes = kernels::reduction_lanes, tasks = outer * strips * segments;
  const index_t grain = std::max<index_t>(1, elementwise_grain / std::max<index_t>(1, std::min(n, kernels::segment_length) * std::min(inner, column_strip)));
  Tensor partial = segments > 1 ? Tensor::empty({outer, segments, lanes, inner}, dtype_of<T>()) : Tensor();
  T* lanes_of = segments > 1 ? partial.mutable_data<T>() : nullptr;
  parallel_for(tasks, grain, [&](index_t begin, index_t end) {
    for (index_t task = begin; task < end; ++task) {
      const index_t o = task / (strips * segments), segment = task / strips % segments, column = task % strips * column_strip;
      const index_t columns = std::min(column_strip, inner - column), start = segment * kernels::segment_length;
      const T* from = x + (o * n + start) * inner + column;
      if (segments == 1) {
        kernel.columns(from, n, inner, columns, y + o * inner + column);
        continue;
      }
      // A strip of its own, then copied to its place among the others' lanes.
      T strip[kernels::reduction_lanes * column_strip];
      kernel.columns_partial(from, std::min(kernels::segment_length, n - start), inner, columns, strip);
      for (index_t l = 0; l < lanes; ++l) std::copy_n(strip + l * columns, columns, lanes_of + ((o * segments + segment) * lanes + l) * inner + column);
    }
  });
  if (segments > 1)
    for (index_t o = 0; o < outer; ++o) kernel.merge(lanes_of + o * segments * lanes * inner, segments, inner, y + o * inner);
}

}  // namespace

void reduce(kernels::Reduction op, const Tensor& x, const Dims& axes, Tensor& out) {
  const Blocks blocks = as_blocks(x, axes);
  if (out.numel() == 0) return;
  visit_floating(x.dtype(), "reduce", [&](auto tag) {
    using T = decltype(tag);
    const auto& kernel = kernels::active<T>().reduce[op];
    const T* from = blocks.x.data<T>();
    T* to = out.mutable_data<T>();
    if (blocks.inner == 1) reduce_rows(kernel, from, blocks.outer, blocks.n, to);
    else reduce_columns(kernel, from, blocks.outer, blocks.n, blocks.inner, to);
  });
}

void arg_reduce(bool greatest, const Tensor& x, int axis, Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor rows = contiguous(with_axes_last(x, {axis}));
  const index_t n = x.shape()[axis];
  visit_floating(x.dtype(), "arg_reduce", [&](auto tag) {
    using T = decltype(tag);
    const auto& kernels = kernels::active<T>().reduce;
    const auto kernel = greatest ? kernels.argmax : kernels.argmin;
    const T* from = rows.data<T>();
    std::int64_t* to = out.mutable_data<std::int64_t>();
    parallel_rows(out.numel(), n, [&](index_t row, index_t count) { kernel(from + row * n, count, n, n, to + row); });
  });
}

}  // namespace gradus::compute
