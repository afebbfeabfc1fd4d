#pragma once
// Distances between two sets of points.

#include "engine/autograd/op.hpp"

namespace gradus {

/// y_ij = ||a_i - b_j||^2 for a (..., N, D) and b (..., K, D), batch axes broadcasting: (..., N, K). Computed from differences,
/// so it is never negative, exactly 0 from a point to itself, and keeps its digits far from the origin.
[[nodiscard]] Tensor squared_distance(const Tensor& a, const Tensor& b);

/// y_ij = ||a_i - b_j||_p for p = 1, 2 or infinity, shapes as above. Gradient 0 at points that coincide; for p = infinity the
/// coordinates that tie share it evenly.
[[nodiscard]] Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);
/// y_ij = a_i . b_j / (||a_i|| ||b_j||), shapes as above; 0 with gradient 0 where a vector is zero.
[[nodiscard]] Tensor cosine_similarity(const Tensor& a, const Tensor& b);
/// 1 - cosine_similarity, from differences of the normalised vectors: never negative, exactly 0 from a vector to itself.
[[nodiscard]] Tensor cosine_distance(const Tensor& a, const Tensor& b);

[[nodiscard]] std::span<const OpDef* const> distance_ops();
[[nodiscard]] std::span<const OpDef* const> cdist_ops();

}  // namespace gradus
