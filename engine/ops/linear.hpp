#pragma once
// Linear layers, outer products and Einstein sums: all of them reductions to matmul.

#include <string_view>

#include "engine/autograd/op.hpp"

namespace gradus {

/// Functions that may follow a linear map.
enum class Activation : std::uint8_t { none, relu, tanh, sigmoid, rectified_quadratic, gelu, gelu_tanh, silu };
[[nodiscard]] Tensor activate(const Tensor& x, Activation activation);

struct LinearOptions {
  Tensor bias{};  ///< (N); none: 0
  Activation activation = Activation::none;
};
/// y = f(x W^T + b) for x (..., K) and a weight (N, K): (..., N).
[[nodiscard]] Tensor linear(const Tensor& x, const Tensor& weight, const LinearOptions& options = {});

/// y_ij = a_i b_j for two vectors.
[[nodiscard]] Tensor outer(const Tensor& a, const Tensor& b);

/// Einstein's sum over one or two tensors, as in numpy: a letter names an axis of the operands, letters missing from the output are
/// summed over, a letter twice in one operand is its diagonal, "..." stands for any further axes, which broadcast. Without "->" the
/// output has "..." and then the letters that occur once, in alphabetical order. An equation that does not fit is a ValueError
/// (its form) or a ShapeError (the operands').
[[nodiscard]] Tensor einsum(std::string_view equation, const Tensor& a);
[[nodiscard]] Tensor einsum(std::string_view equation, const Tensor& a, const Tensor& b);

[[nodiscard]] std::span<const OpDef* const> linear_ops();
[[nodiscard]] std::span<const OpDef* const> einsum_ops();

}  // namespace gradus
