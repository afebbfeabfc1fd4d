#pragma once
// Products of signs that are stored as bits. A row of D signs is ceil(D / 64) words of an i64 tensor: sign i is bit i % 64 of word
// i / 64, +1 where it is set and -1 where not. Nothing of N x D is ever held in floating point.

#include "engine/autograd/op.hpp"

namespace gradus {

/// y_nh = sum_i x_ni w_hi for bits (N, W) and weights (H, D), 64 (W - 1) < D <= 64 W: (N, H). Bits past D are not looked at.
[[nodiscard]] Tensor signed_sums(const Tensor& bits, const Tensor& weights);
/// Its adjoint: w_hi = sum_n x_ni g_nh for bits (N, W) and g (N, H): (H, D).
[[nodiscard]] Tensor signed_sums_adjoint(const Tensor& bits, const Tensor& g, index_t d);

/// mean_n (f_n - y_n)^2 for f_n = (-1)^(H+1) prod_h sum_i x_ni w_hi (paper 2, for H = 2 -(sum gamma_i x_i)(sum gamma~_i x_i)) and targets
/// (N): one number. One pass over the bits gives it and its gradient. No rows are a ShapeError.
[[nodiscard]] Tensor parity_loss(const Tensor& bits, const Tensor& weights, const Tensor& target);

[[nodiscard]] std::span<const OpDef* const> bits_ops();

}  // namespace gradus
