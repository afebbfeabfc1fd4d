#pragma once
// Maps from scores to weights along one axis. In all of them a row whose every entry is -inf (masked) gives zero weights and
// zero gradient, and a NaN makes its row NaN.

#include <variant>

#include "engine/autograd/op.hpp"

namespace gradus {

/// A number or a rank-0 tensor, for parameters one may differentiate or anneal.
class Number {
 public:
  Number(double value) : value_(value) {}
  Number(const Tensor& tensor) : value_(tensor) {}
  [[nodiscard]] bool is_tensor() const noexcept { return std::holds_alternative<Tensor>(value_); }
  [[nodiscard]] const Tensor& tensor() const { return std::get<Tensor>(value_); }
  /// The number itself, read from the tensor if it is one.
  [[nodiscard]] double value() const { return is_tensor() ? tensor().item() : std::get<double>(value_); }

 private:
  std::variant<double, Tensor> value_;
};

struct MapOptions {
  index_t axis = -1;
  Number inverse_temperature = 1.0;  ///< beta, finite and > 0; the limit is hardmax
  /// Broadcasts to the scores. Of dtype bool: true keeps an entry, the others are not read and weigh 0. Floating: added to
  /// beta x, -inf masking an entry.
  Tensor mask{};
};

/// y_i = e^{beta x_i} / sum_j e^{beta x_j}. Weights below the smallest normal number are exactly 0; +inf makes the row NaN.
[[nodiscard]] Tensor softmax(const Tensor& x, const MapOptions& options = {});
/// ln softmax(x); of a row of nothing but -inf: -inf with gradient 0.
[[nodiscard]] Tensor log_softmax(const Tensor& x, const MapOptions& options = {});
/// The limit of softmax for beta to infinity: uniform over the entries within tolerance * (1 + |max|) of the maximum, the
/// tolerance being 1e-9 in f64 and 1e-6 in f32. Gradient zero almost everywhere.
[[nodiscard]] Tensor hardmax(const Tensor& x, index_t axis = -1);
/// hardmax's tolerance for a dtype.
[[nodiscard]] double hardmax_tolerance(DType dtype);
/// y_i = x_i / sum_j x_j; a row that sums to zero gives zero weights and a counted Event::zero_weight_row.
[[nodiscard]] Tensor normalized_linear(const Tensor& x, index_t axis = -1);

[[nodiscard]] std::span<const OpDef* const> normalize_ops();

}  // namespace gradus
