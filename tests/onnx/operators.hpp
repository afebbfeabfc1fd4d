#pragma once
// The table of ONNX operators, in families. To add one: a lambda in the file of its family, which reads every input and attribute
// that matters and throws a Skip for what our op does not have.

#include <span>

#include "engine/ops/elementwise.hpp"
#include "tests/onnx/call.hpp"

namespace gradus::onnx {

[[nodiscard]] std::span<const Entry> elementwise_operators();
[[nodiscard]] std::span<const Entry> reduce_operators();
[[nodiscard]] std::span<const Entry> layout_operators();
[[nodiscard]] std::span<const Entry> indexing_operators();
[[nodiscard]] std::span<const Entry> network_operators();
[[nodiscard]] std::span<const Entry> norm_operators();
[[nodiscard]] std::span<const Entry> window_operators();

/// An entry's function from a function of ours.
template <Tensor (*f)(const Tensor&)>
Outputs unary(Call& c) {
  return {f(c.in(0))};
}

[[nodiscard]] inline Shape shape_of(const std::vector<index_t>& sizes) { return Shape(std::span<const index_t>(sizes)); }
[[nodiscard]] inline bool is_floating(const Tensor& t) { return t.dtype() == DType::f32 || t.dtype() == DType::f64; }

}  // namespace gradus::onnx
