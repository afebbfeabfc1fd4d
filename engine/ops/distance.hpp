#pragma once
// Distances between two sets of points.

#include "engine/autograd/op.hpp"

namespace gradus {

/// y_ij = ||a_i - b_j||^2 for a (..., N, D) and b (..., K, D), batch axes broadcasting: (..., N, K). Computed from differences,
/// so it is never negative, exactly 0 from a point to itself, and keeps its digits far from the origin.
[[nodiscard]] Tensor squared_distance(const Tensor& a, const Tensor& b);

[[nodiscard]] std::span<const OpDef* const> distance_ops();

}  // namespace gradus
