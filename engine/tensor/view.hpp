#pragma once
// Views: new shapes on the same storage, nothing copied. These know nothing of tapes; engine/ops/layout.hpp has the
// differentiable functions of the same names.

#include <limits>
#include <optional>

#include "engine/tensor/tensor.hpp"

namespace gradus {

/// The tensor itself when row-major without gaps, else a row-major copy.
[[nodiscard]] Tensor contiguous(const Tensor& t);
/// Always a fresh row-major copy, on no tape.
[[nodiscard]] Tensor copy(const Tensor& t);
/// Copies the elements of `source` (broadcast to the shape of `target`) into `target`, in place. Dtypes must agree.
void copy_into(Tensor& target, const Tensor& source);

/// One axis of a slice: start, stop and step as in Python (negative counts from the end; stop is not included).
struct Slice {
  static constexpr index_t none = std::numeric_limits<index_t>::min();
  index_t start = none, stop = none, step = 1;
};

namespace view {

[[nodiscard]] Tensor permute(const Tensor& t, const Dims& axes);
[[nodiscard]] Tensor transpose(const Tensor& t, index_t a, index_t b);
/// Stretches axes of size 1 (and adds leading ones) to `shape`; a size of -1 keeps the axis.
[[nodiscard]] Tensor expand(const Tensor& t, const Shape& shape);
/// `shape` with at most one -1, which is inferred.
[[nodiscard]] Shape resolve_reshape(const Shape& from, const Shape& to);
/// A view of the new shape if strides allow one.
[[nodiscard]] std::optional<Tensor> try_reshape(const Tensor& t, const Shape& shape);
/// A view where possible, else a copy.
[[nodiscard]] Tensor reshape(const Tensor& t, const Shape& shape);
[[nodiscard]] Tensor unsqueeze(const Tensor& t, index_t axis);
/// Removes an axis of size 1; another size is a ShapeError.
[[nodiscard]] Tensor squeeze(const Tensor& t, index_t axis);
/// First index, count and step of a slice on an axis of `size`, clamped as Python does. A step of 0 is a ValueError.
struct Range {
  index_t start, count, step;
};
[[nodiscard]] Range resolve_slice(const Slice& slice, index_t size);
[[nodiscard]] Tensor slice(const Tensor& t, index_t axis, const Slice& slice);
/// One index along an axis, which disappears. Outside the axis is an IndexError.
[[nodiscard]] Tensor select(const Tensor& t, index_t axis, index_t index);

}  // namespace view
}  // namespace gradus
