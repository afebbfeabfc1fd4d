#pragma once
// Activations beyond those with a kernel of their own (relu, sigmoid, tanh: elementwise.hpp). All hold their limits at +-inf,
// in value and in gradient.

#include "engine/autograd/op.hpp"
#include "engine/ops/normalize.hpp"

namespace gradus {

/// max(0, x) + slope min(0, x); gradient 0 at 0. The slope may be a rank-0 tensor, and learnt.
[[nodiscard]] Tensor leaky_relu(const Tensor& x, const Number& slope = 0.01);
/// x above 0, alpha (e^x - 1) from 0 down; at 0 the gradient is alpha, that of the left side.
[[nodiscard]] Tensor elu(const Tensor& x, const Number& alpha = 1.0);
/// x times the normal distribution function: x/2 (1 + erf(x / sqrt 2)).
[[nodiscard]] Tensor gelu(const Tensor& x);
/// gelu's approximation x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
[[nodiscard]] Tensor gelu_tanh(const Tensor& x);
/// x sigmoid(x).
[[nodiscard]] Tensor silu(const Tensor& x);
/// ln(1 + e^{beta x}) / beta, exact far out on both sides. beta must be finite and > 0.
[[nodiscard]] Tensor softplus(const Tensor& x, const Number& beta = 1.0);
/// x kept within [low, high], either of which may be infinite; gradient 0 outside and at the edges; NaN stays. low > high is an error.
[[nodiscard]] Tensor clamp(const Tensor& x, double low, double high);

[[nodiscard]] std::span<const OpDef* const> activation_ops();

}  // namespace gradus
