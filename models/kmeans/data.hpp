#pragma once
// The published data set of Figure 3, with our own random numbers.

#include "engine/core/random.hpp"
#include "engine/tensor/tensor.hpp"

namespace gradus::kmeans {

/// Points (N, D): `clusters` true centres uniform on the unit cube, floor(N / clusters) points normal around each with standard
/// deviation 0.1 (the remainder around the last), every dimension scaled to [0, 1], rows permuted.
[[nodiscard]] Tensor published_mixture(index_t points, index_t dimensions, index_t clusters, const Random& random, DType dtype = DType::f64);

/// Largest |x| in a tensor; 0 for an empty one.
[[nodiscard]] double max_magnitude(const Tensor& x);

/// Share of equal entries of two label vectors (N) i64; 1 for empty ones.
[[nodiscard]] double agreement(const Tensor& labels_a, const Tensor& labels_b);

}  // namespace gradus::kmeans
