#pragma once
// The three ops the gradient accumulator itself stands on. All others are in engine/ops.

#include "engine/autograd/op.hpp"

namespace gradus {

/// A tensor of zeros, on no tape.
[[nodiscard]] Tensor zeros(const Shape& shape, DType dtype);
/// a + b with broadcasting.
[[nodiscard]] Tensor add(const Tensor& a, const Tensor& b);
/// Sums x over the axes along which `shape` was broadcast to x's shape; the adjoint of broadcasting.
[[nodiscard]] Tensor sum_to_shape(const Tensor& x, const Shape& shape);

/// The definitions of this file, for the registry.
[[nodiscard]] std::span<const OpDef* const> core_ops();

}  // namespace gradus
