#pragma once
// Running results along one axis, in the order of the axis. An axis of size 0 gives nothing.

#include "engine/autograd/op.hpp"

namespace gradus {

struct ScanOptions {
  index_t axis = -1;
  bool reverse = false;  ///< from the last element to the first
};

/// y_i = x_0 + ... + x_i.
[[nodiscard]] Tensor cumsum(const Tensor& x, const ScanOptions& options = {});
/// y_i = x_0 * ... * x_i. The gradient is right with any number of zeros.
[[nodiscard]] Tensor cumprod(const Tensor& x, const ScanOptions& options = {});
/// The linear recurrence h_0 = b_0, h_i = a_i h_{i-1} + b_i. a and b broadcast against each other; a_0 is not read.
[[nodiscard]] Tensor linear_scan(const Tensor& a, const Tensor& b, const ScanOptions& options = {});

[[nodiscard]] std::span<const OpDef* const> scan_ops();

}  // namespace gradus
