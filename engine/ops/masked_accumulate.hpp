#pragma once
// Sums over the kept entries of a block of weights, by the dense kernels wherever those cannot show what was dropped.
// For engine/ops only.

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/core/memory.hpp"
#include "engine/kernels/kernels.hpp"

namespace gradus::define {

template <class T>
using Scratch = std::vector<T, PoolAllocator<T>>;

/// Element (i, j) is at data[i * row + j * column].
template <class T>
struct MatrixView {
  T* data = nullptr;
  index_t row = 0, column = 1;
  [[nodiscard]] T& operator()(index_t i, index_t j) const noexcept { return data[i * row + j * column]; }
  [[nodiscard]] MatrixView transposed() const noexcept { return {data, column, row}; }
  [[nodiscard]] MatrixView from(index_t i, index_t j) const noexcept { return {data + i * row + j * column, row, column}; }
};
/// Null data: everything is kept.
using Keep = MatrixView<const std::uint8_t>;

template <class T>
[[nodiscard]] bool all_finite(const MatrixView<const T>& m, index_t rows, index_t columns) {
  for (index_t i = 0; i < rows; ++i) {
    bool finite = true;  // no early exit inside a row: this loop is vectorised
    for (index_t j = 0; j < columns; ++j) finite &= std::abs(m(i, j)) <= std::numeric_limits<T>::max();
    if (!finite) return false;
  }
  return true;
}

/// c += a b over the kept entries of a, which is 0 where it is not kept. a is (m, k), b (k, n), c (m, n) with rows side by side.
template <class T>
void accumulate_product(index_t m, index_t n, index_t k, const MatrixView<const T>& a, const MatrixView<const T>& b, const Keep& keep, const MatrixView<T>& c) {
  if (keep.data == nullptr || all_finite(b, k, n)) {
    kernels::active<T>().gemm.gemm({.m = m,
                                    .n = n,
                                    .k = k,
                                    .a = a.data,
                                    .a_row = a.row,
                                    .a_col = a.column,
                                    .b = b.data,
                                    .b_row = b.row,
                                    .b_col = b.column,
                                    .c = c.data,
                                    .c_row = c.row,
                                    .accumulate = true});
    return;
  }
  for (index_t i = 0; i < m; ++i)
    for (index_t p = 0; p < k; ++p)
      if (keep(i, p))
        for (index_t j = 0; j < n; ++j) c(i, j) = std::fma(a(i, p), b(p, j), c(i, j));
}

/// gx_i -= sum_j g_ij (x_i - c_j) and gc_j -= sum_i g_ij (c_j - x_i) over the kept entries of g (n, k), entry by entry: what is not kept
/// is not read. x (n, d), c (k, d); gx or gc may be null.
template <class T>
void accumulate_distance_gradient(index_t n, index_t k, index_t d, const MatrixView<const T>& x, const MatrixView<const T>& c, const MatrixView<const T>& g,
                                  const Keep& keep, const MatrixView<T>& gx, const MatrixView<T>& gc) {
  for (index_t i = 0; i < n; ++i)
    for (index_t j = 0; j < k; ++j)
      for (index_t p = 0; keep(i, j) && p < d; ++p) {
        const T term = g(i, j) * (x(i, p) - c(j, p));
        if (gx.data) gx(i, p) -= term;
        if (gc.data) gc(j, p) += term;
      }
}

}  // namespace gradus::define
