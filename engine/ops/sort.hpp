#pragma once
// Order along one axis. NaN is the greatest number; equal elements keep their order (the lowest index first), also when descending.

#include "engine/autograd/op.hpp"

namespace gradus {

struct SortOptions {
  index_t axis = -1;
  bool descending = false;
};

/// The indices (i64) that sort x. Not differentiable.
[[nodiscard]] Tensor argsort(const Tensor& x, const SortOptions& options = {});
/// The elements in order; each one's gradient returns to its place.
[[nodiscard]] Tensor sort(const Tensor& x, const SortOptions& options = {});

struct TopkOptions {
  index_t axis = -1;
  bool largest = true;  ///< false: the smallest
};
struct Topk {
  Tensor values, indices;  ///< in order, the most extreme first; indices are i64
};
/// The k largest elements along an axis and where they stand. More than there are is an error.
[[nodiscard]] Topk topk(const Tensor& x, index_t k, const TopkOptions& options = {});

[[nodiscard]] std::span<const OpDef* const> sort_ops();

}  // namespace gradus
