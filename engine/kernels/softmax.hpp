#pragma once
// Maps from rows of scores to rows of weights, and their gradients. All arrays are (rows, n), contiguous; outputs may be one of the
// inputs. Sums along a row follow the tree of reduce.hpp, so that a row's result depends on that row alone.

#include "engine/core/dtype.hpp"

namespace gradus::kernels {

template <class T>
struct SoftmaxKernels {
  /// y = exp(beta (x - max)) / sum. A row of -inf: zeros. NaN or +inf in a row: NaN. Weights below the smallest normal number: 0.
  void (*softmax)(const T* x, index_t rows, index_t n, T beta, T* y);
  /// gx = beta y (gy - sum(gy y)). Where y is 0, gy is not looked at and gx is 0.
  void (*softmax_backward)(const T* y, const T* gy, index_t rows, index_t n, T beta, T* gx);
  /// y = beta (x - max) - log(sum exp(beta (x - max))). -inf stays -inf; NaN or +inf in a row: NaN.
  void (*log_softmax)(const T* x, index_t rows, index_t n, T beta, T* y);
  /// gx = beta (gy - exp(y) sum(gy)). Where y is -inf, gy is not looked at and gx is 0.
  void (*log_softmax_backward)(const T* y, const T* gy, index_t rows, index_t n, T beta, T* gx);
  /// y[r] = log_softmax(x)[r, target[r]]; sums[2 r] takes the shift m and sums[2 r + 1] log sum exp(x - m), of a row of -inf both 0.
  void (*log_softmax_at)(const T* x, index_t rows, index_t n, const std::int64_t* target, T* y, T* sums);
  /// gx = gy ([j = target] - exp((x - m) - log sum)); 0 for a row whose y is -inf.
  void (*log_softmax_at_backward)(const T* x, const T* y, const T* gy, const T* sums, index_t rows, index_t n, const std::int64_t* target, T* gx);
  /// y[r] = log(sum exp(x)); -inf for a row of -inf or without elements, inf for a row with inf, NaN for a row with NaN.
  void (*logsumexp)(const T* x, index_t rows, index_t n, T* y);
  /// Equal weights for the entries x >= max - tolerance (1 + |max|). A row of -inf: zeros. NaN in a row: NaN. With +inf: its ties.
  void (*hardmax)(const T* x, index_t rows, index_t n, T tolerance, T* y);
  /// y = x / sum(x). A row that sums to 0: zeros; returns how many such rows there were. NaN in a row: NaN.
  index_t (*normalize)(const T* x, index_t rows, index_t n, T* y);
  /// gx = (gy - sum(gy y)) / sum(x) for y = normalize(x); 0 in rows that sum to 0.
  void (*normalize_backward)(const T* x, const T* y, const T* gy, index_t rows, index_t n, T* gx);
};

}  // namespace gradus::kernels
