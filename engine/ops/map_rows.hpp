#pragma once
// What maps from scores to weights share: attributes, shape rule, rows along any axis, temperatures and masks. For engine/ops only.

#include "engine/ops/define.hpp"
#include "engine/ops/normalize.hpp"

namespace gradus::define {

struct MapAttributes {
  index_t axis;
  double inverse_temperature;
};

/// Shape rule of a map whose attributes are, or begin with, MapAttributes.
void like_input_along_axis(Run& r);

/// Scores ready for a map, and the inverse temperature that is still to be applied to them.
struct MapScores {
  Tensor x;
  double inverse_temperature;
};
/// Applies mask and temperature of `options` as far as the map's own attribute cannot express them: entries that a bool mask
/// drops become -inf without being read, an additive mask comes after the temperature. `op` names the map in errors.
[[nodiscard]] MapScores map_scores(const char* op, const Tensor& x, const MapOptions& options);

/// beta x for a number or a rank-0 tensor; -inf takes no part, since -inf * 0 would be the gradient of beta.
[[nodiscard]] Tensor scaled_scores(const char* op, const Tensor& x, const Number& beta);

[[nodiscard]] inline Tensor is_negative_infinity(const Tensor& x) { return equal_to(x, -std::numeric_limits<double>::infinity()); }

/// Brings the axis last, hands contiguous rows of up to `N` tensors to f(pointers, rows, n), and puts the result back.
template <std::size_t N, class F>
void along_axis(const std::array<Tensor, N>& in, Tensor& out, index_t axis_argument, F&& f) {
  const int axis = normalize_axis(axis_argument, out.rank(), "axis"), last = out.rank() - 1;
  const index_t n = out.shape()[axis], rows = n > 0 ? out.numel() / n : 0;
  visit_floating(out.dtype(), "axis", [&](auto tag) {
    using T = decltype(tag);
    std::array<Tensor, N> moved;
    std::array<const T*, N> from;
    for (std::size_t i = 0; i < N; ++i) {
      moved[i] = contiguous(axis == last ? in[i] : view::transpose(in[i], axis, last));
      from[i] = moved[i].template data<T>();
    }
    Tensor target = axis == last ? out : Tensor::empty(moved[0].shape(), out.dtype());
    T* to = target.mutable_data<T>();
    compute::parallel_rows(rows, n, [&](index_t row, index_t count) {
      std::array<const T*, N> at;
      for (std::size_t i = 0; i < N; ++i) at[i] = from[i] + row * n;
      f(at, to + row * n, count, n);
    });
    if (axis != last) copy_into(out, view::transpose(target, axis, last));
  });
}

}  // namespace gradus::define
