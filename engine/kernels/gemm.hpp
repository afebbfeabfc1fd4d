#pragma once
// Matrix products of one floating-point type, blocked, packed, batched and threaded.
//
// The order of summation is a promise. An element of C is ONE fma chain in the order of k,
//   s = start; for p = 0 .. k-1: s = fma(a[i,p], b[p,j], s)
// where start is 0, the column's bias or, when accumulating, the C that was there. No tile, block, vector width, thread count or layout of the
// operands changes a bit. (The baseline instruction set has no fma: there a product is rounded before it is added.)
// The one exception is a long k with few outputs, where split_length() < k: k is cut into parts [q L, (q + 1) L), each part is a
// chain from 0, and the parts are merged in the pairwise tree
//   for (h = 1; h < parts; h *= 2) for (q = 0; q + h < parts; q += 2 h) part[q] += part[q + h];
// then C = part[0], or C (or the bias) + part[0]. Zeros are not skipped: 0 times inf or NaN is NaN.

#include "engine/core/dtype.hpp"

namespace gradus::kernels {

/// Length L of the parts that k is cut into: k itself unless k >= 2048 and m n <= 16384; then a multiple of 1024 that gives at
/// most 64 parts. A function of the shape alone, the same for every dtype and instruction set.
[[nodiscard]] constexpr index_t split_length(index_t m, index_t n, index_t k) noexcept {
  constexpr index_t unit = 1024, most_parts = 64, most_outputs = 16384;
  const bool few_outputs = m > 0 && n > 0 && m <= most_outputs / n;
  if (k < 2 * unit || !few_outputs) return k;
  return unit * ((k - 1) / (unit * most_parts) + 1);
}

/// C = A B, or C += A B, for each matrix of a batch. Strides are in elements and may be anything; a transposed operand is one whose
/// two strides are swapped. C must not overlap A or B, nor the matrices of C each other.
template <class T>
struct GemmArgs {
  index_t m = 0, n = 0, k = 0;  ///< A is (m, k), B is (k, n), C is (m, n); any of them may be 0
  const T* a = nullptr;         ///< a[i, p] is at a[i * a_row + p * a_col]
  index_t a_row = 0, a_col = 1;
  const T* b = nullptr;  ///< b[p, j] is at b[p * b_row + j * b_col]
  index_t b_row = 0, b_col = 1;
  T* c = nullptr;  ///< c[i, j] is at c[i * c_row + j]
  index_t c_row = 0;
  bool accumulate = false;           ///< false: C is only written, whatever it holds
  const T* bias = nullptr;           ///< (n) or null: what the chains of column j start from, when not accumulating
  index_t batch = 1;                 ///< number of products
  index_t a_batch = 0, b_batch = 0;  ///< from one product to the next; 0 shares the operand
  index_t c_batch = 0;
};

/// One product with a part of a packed B: rows [b_row, b_row + k), columns [b_col, b_col + n). It starts at a multiple of
/// packed_panel columns, and ends at one or at the last column. The same chains as gemm, whatever k.
template <class T>
struct PackedGemmArgs {
  index_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  index_t a_row = 0, a_col = 1;
  const T* b = nullptr;                      ///< what `pack` wrote of a (b_rows, .) matrix
  index_t b_rows = 0, b_row = 0, b_col = 0;  ///< rows of the whole; the first row and column of the part
  T* c = nullptr;
  index_t c_row = 0;
  bool accumulate = false;
};

/// Blocks of columns of a packed B that may be multiplied on their own, for every type and instruction set.
inline constexpr index_t packed_panel = 32;

template <class T>
struct GemmKernels {
  /// Splits its work over threads by itself (nothing for small products); working memory comes from the pool.
  void (*gemm)(const GemmArgs<T>&);
  /// Packs B (k, n), which has any strides, for many products with it: `packed_elements` elements.
  index_t (*packed_elements)(index_t k, index_t n);
  void (*pack)(const T* b, index_t b_row, index_t b_col, index_t k, index_t n, T* to);
  /// On the calling thread; needs no memory.
  void (*gemm_packed)(const PackedGemmArgs<T>&);
};

}  // namespace gradus::kernels
