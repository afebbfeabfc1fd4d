#pragma once
// Gradients of squared distances by products, 2 (x sum(g) - g c). Points far from the origin would spend their digits on the offset, so
// that both are moved by one vector first, which distances do not notice. For engine/ops only.

#include "engine/tensor/tensor.hpp"

namespace gradus::define {

struct MovedPoints {
  Tensor x, c;
};

/// x (..., N, D) and c (..., K, D) less a vector amid x: the middle one, coordinate by coordinate, of its first, middle and last point, so
/// that a single one far out does no harm; 0 where that is not finite. c is not asked, since a mask may hide any of its points. The
/// vector is a constant: derivatives through it are those of x and c.
[[nodiscard]] MovedPoints moved_near_origin(const Tensor& x, const Tensor& c);

/// The gradient of sum_ij g_ij |x_i - c_j|^2 in x, (..., N, D), for points that were moved. Where `keep` (..., N, K) is defined, entries
/// that are not kept are not read, nor points of x that none is kept for; g is 0 there.
[[nodiscard]] Tensor distance_gradient(const Tensor& x, const Tensor& c, const Tensor& g, const Tensor& keep = {});

}  // namespace gradus::define
