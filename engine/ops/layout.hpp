#pragma once
// Shapes and places: views, joins, gathers. All are linear, so each one's gradient is its adjoint.

#include "engine/autograd/op.hpp"
#include "engine/tensor/view.hpp"

namespace gradus {

/// A new shape of the same elements in row-major order; one size may be -1. A view where strides allow it.
[[nodiscard]] Tensor reshape(const Tensor& x, const Shape& shape);
/// Axes in a new order; a view.
[[nodiscard]] Tensor permute(const Tensor& x, const Dims& axes);
/// Two axes exchanged; a view.
[[nodiscard]] Tensor transpose(const Tensor& x, index_t a = -1, index_t b = -2);
/// Axes of size 1 stretched to `shape` (-1 keeps); a view.
[[nodiscard]] Tensor expand(const Tensor& x, const Shape& shape);
/// A new axis of size 1; a view.
[[nodiscard]] Tensor unsqueeze(const Tensor& x, index_t axis);
/// An axis of size 1 removed (another size is a ShapeError); a view.
[[nodiscard]] Tensor squeeze(const Tensor& x, index_t axis);
/// start:stop:step along one axis, as in Python; negative steps go backwards. A view.
[[nodiscard]] Tensor slice(const Tensor& x, index_t axis, const Slice& slice);
/// One index along an axis, which goes; a view.
[[nodiscard]] Tensor select(const Tensor& x, index_t axis, index_t index);
/// The order along one axis reversed; a view.
[[nodiscard]] Tensor flip(const Tensor& x, index_t axis);
/// Elements (i, i + offset) of the last two axes (M, N), as a new last axis; a view. An offset beyond the corners leaves nothing.
[[nodiscard]] Tensor diagonal(const Tensor& x, index_t offset = 0);
/// `x` placed at slice positions of an axis of `size`, zeros elsewhere: the adjoint of slice.
[[nodiscard]] Tensor embed_slice(const Tensor& x, index_t axis, const Slice& slice, index_t size);
/// The last axis placed on a diagonal of a (rows, columns) matrix of zeros: the adjoint of diagonal.
[[nodiscard]] Tensor embed_diagonal(const Tensor& x, index_t rows, index_t columns, index_t offset = 0);
/// Zeros before and after along one axis.
[[nodiscard]] Tensor pad(const Tensor& x, index_t axis, index_t before, index_t after);
/// Joined along an existing axis; the other sizes must agree.
[[nodiscard]] Tensor concat(std::span<const Tensor> parts, index_t axis = 0);
/// Joined along a new axis; all shapes must agree.
[[nodiscard]] Tensor stack(std::span<const Tensor> parts, index_t axis = 0);

using TensorList = std::vector<Tensor, PoolAllocator<Tensor>>;
/// Cut along an axis into parts of the given sizes, which must add up, or into equal `parts`, which must divide it; views.
[[nodiscard]] TensorList split(const Tensor& x, std::span<const index_t> sizes, index_t axis = 0);
[[nodiscard]] TensorList split(const Tensor& x, index_t parts, index_t axis = 0);
/// Element i moved to (i + shift) mod size along one axis.
[[nodiscard]] Tensor roll(const Tensor& x, index_t axis, index_t shift);
/// The whole of one axis `count` times over, as numpy's tile: (a, b) becomes (a, b, a, b).
[[nodiscard]] Tensor repeat(const Tensor& x, index_t axis, index_t count);
/// Of the last two axes: what stands on and below (above) the diagonal `offset`, which is further right when positive; zeros elsewhere.
[[nodiscard]] Tensor tril(const Tensor& x, index_t offset = 0);
[[nodiscard]] Tensor triu(const Tensor& x, index_t offset = 0);

/// y[..., i, ...] = x[..., index[..., i, ...], ...] along one axis; `index` (i64) has x's rank and no larger other axes.
/// An index outside 0 .. size - 1 is an IndexError that names it.
[[nodiscard]] Tensor gather(const Tensor& x, index_t axis, const Tensor& index);
/// base with source added at the places gather would read; repeated places accumulate in index order.
[[nodiscard]] Tensor scatter_add(const Tensor& base, index_t axis, const Tensor& index, const Tensor& source);
/// Whole slices of x along an axis, in the order of the rank-1 `index`.
[[nodiscard]] Tensor index_select(const Tensor& x, index_t axis, const Tensor& index);
/// Rows of a table (V, D) for indices of any shape (...): (..., D).
[[nodiscard]] Tensor embedding(const Tensor& table, const Tensor& index);
/// 1 at `index` along a new last axis of size `classes`, 0 elsewhere. Not differentiable.
[[nodiscard]] Tensor one_hot(const Tensor& index, index_t classes, DType dtype = DType::f32);

[[nodiscard]] std::span<const OpDef* const> layout_ops();
[[nodiscard]] std::span<const OpDef* const> arrange_ops();
[[nodiscard]] std::span<const OpDef* const> indexing_ops();

}  // namespace gradus
