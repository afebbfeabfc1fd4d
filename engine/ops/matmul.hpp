#pragma once
// Matrix products.

#include "engine/autograd/op.hpp"

namespace gradus {

/// a (..., M, K) times b (..., K, N) gives (..., M, N); batch axes broadcast. A vector counts as one row (a) or one column (b),
/// whose axis then goes, as in numpy. Each element is one fma chain in the order of k (see kernels/gemm.hpp), so the bits depend
/// on neither threads nor layout. Transposed operands are read in place.
[[nodiscard]] Tensor matmul(const Tensor& a, const Tensor& b);

[[nodiscard]] std::span<const OpDef* const> matmul_ops();

}  // namespace gradus
