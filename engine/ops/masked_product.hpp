#pragma once
// Products of which only some entries are wanted. What a dropped entry (keep = false) would multiply is not read, forward or
// backward: a NaN there does not show. `keep` is bool; batch axes of all three broadcast.

#include "engine/autograd/op.hpp"

namespace gradus {

/// y_ij = sum_k [keep_ik] a_ik b_kj for a and keep (..., M, K), b (..., K, N): (..., M, N). Summed in the order of k.
[[nodiscard]] Tensor masked_matmul(const Tensor& a, const Tensor& b, const Tensor& keep);
/// y_ij = keep_ij ? sum_k a_ik b_kj : 0 for a (..., M, K), b (..., K, N), keep (..., M, N).
[[nodiscard]] Tensor sampled_matmul(const Tensor& a, const Tensor& b, const Tensor& keep);
/// y_ij = keep_ij ? ||a_i - b_j||^2 : 0 for a (..., N, D), b (..., K, D), keep (..., N, K).
[[nodiscard]] Tensor sampled_squared_distance(const Tensor& a, const Tensor& b, const Tensor& keep);

[[nodiscard]] std::span<const OpDef* const> masked_product_ops();

}  // namespace gradus
