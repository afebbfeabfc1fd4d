#pragma once
// Layers written in basic ops, so that a reference is met whatever else there is.

#include <cmath>
#include <numbers>

#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus::testing {

/// x W^T + b for weights (out, in).
inline Tensor linear_layer(const Tensor& x, const Tensor& weight, const Tensor& bias) { return matmul(x, transpose(weight)) + bias; }

inline Tensor plain_layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  const ReduceOptions along{.axes = {-1}, .keep = true};
  return (x - mean(x, along)) * rsqrt(var(x, along) + epsilon) * weight + bias;
}

inline Tensor plain_rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  return x * rsqrt(mean(square(x), {.axes = {-1}, .keep = true}) + epsilon) * weight;
}

/// x Phi(x), with the normal distribution function Phi.
inline Tensor plain_gelu(const Tensor& x) { return 0.5 * x * (1.0 + erf(x / std::numbers::sqrt2)); }

}  // namespace gradus::testing
