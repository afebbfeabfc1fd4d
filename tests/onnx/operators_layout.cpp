#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/ops/layout.hpp"
#include "tests/onnx/operators.hpp"

namespace gradus::onnx {
namespace {

Tensor list_of(const std::vector<index_t>& values) { return Tensor::from(values, {static_cast<index_t>(values.size())}); }

index_t product(const Shape& shape, int begin, int end) {
  index_t n = 1;
  for (int axis = begin; axis < end; ++axis) n *= shape[axis];
  return n;
}

Outputs reshape_to(Call& c) {
  const Tensor& x = c.in(0);
  std::vector<index_t> sizes = c.list(1, "shape");
  if (c.integer("allowzero", 0) == 0)
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] == 0) sizes[i] = x.size(static_cast<index_t>(i));
  return {reshape(x, shape_of(sizes))};
}

Outputs flatten(Call& c) {
  const Tensor& x = c.in(0);
  index_t axis = c.integer("axis", 1);
  if (axis < 0) axis += x.rank();
  const int at = static_cast<int>(axis);
  return {reshape(x, {product(x.shape(), 0, at), product(x.shape(), at, x.rank())})};
}

Outputs permute_axes(Call& c) {
  std::vector<index_t> reversed(static_cast<std::size_t>(c.in(0).rank()));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return {permute(c.in(0), shape_of(c.list("perm", reversed)))};
}

Outputs squeeze_axes(Call& c) {
  Tensor x = c.in(0);
  std::vector<index_t> axes = c.list(1, "axes");
  if (axes.empty())
    for (int axis = 0; axis < x.rank(); ++axis)
      if (x.shape()[axis] == 1) axes.push_back(axis);
  for (index_t& axis : axes) axis = normalize_axis(axis, x.rank(), "Squeeze");
  std::sort(axes.rbegin(), axes.rend());
  for (const index_t axis : axes) x = squeeze(x, axis);
  return {x};
}

Outputs unsqueeze_axes(Call& c) {
  Tensor x = c.in(0);
  std::vector<index_t> axes = c.list(1, "axes");
  const int rank = x.rank() + static_cast<int>(axes.size());
  for (index_t& axis : axes) axis = normalize_axis(axis, rank, "Unsqueeze");
  std::sort(axes.begin(), axes.end());
  for (const index_t axis : axes) x = unsqueeze(x, axis);
  return {x};
}

Outputs slice_axes(Call& c) {
  Tensor x = c.in(0);
  const std::vector<index_t> starts = c.list(1, "starts"), stops = c.list(2, "ends"), steps = c.has(4) ? c.list(4) : std::vector<index_t>(starts.size(), 1);
  std::vector<index_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has(3)) axes = c.list(3);
  else if (c.has("axes")) axes = c.list("axes");
  for (std::size_t i = 0; i < axes.size(); ++i) x = slice(x, axes[i], {starts[i], stops[i], steps[i]});
  return {x};
}

Outputs split_axis(Call& c) {
  const Tensor& x = c.in(0);
  const index_t axis = c.integer("axis", 0), size = x.size(axis), parts = c.integer("num_outputs", static_cast<index_t>(c.outputs()));
  std::vector<index_t> sizes = c.list(1, "split");
  const index_t chunk = (size + parts - 1) / parts;
  if (sizes.empty())
    for (index_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<index_t>(size - i * chunk, 0, chunk));
  const TensorList pieces = gradus::split(x, sizes, axis);
  return {pieces.begin(), pieces.end()};
}

/// Which element stands at place i of an axis that goes on beyond its ends.
index_t continued(index_t i, index_t size, const std::string& mode) {
  if (mode == "edge") return std::clamp<index_t>(i, 0, size - 1);
  const index_t period = mode == "reflect" ? std::max<index_t>(2 * (size - 1), 1) : size;
  const index_t at = ((i % period) + period) % period;
  return at < size ? at : period - at;
}

Tensor continue_axis(const Tensor& x, index_t axis, index_t before, index_t after, const std::string& mode) {
  std::vector<index_t> index;
  for (index_t i = -before; i < x.size(axis) + after; ++i) index.push_back(continued(i, x.size(axis), mode));
  return index_select(x, axis, list_of(index));
}

Outputs pad_axes(Call& c) {
  Tensor x = c.in(0);
  const std::string mode = c.text("mode", "constant");
  const std::vector<index_t> pads = c.list(1, "pads");
  const double value = c.has(2) ? c.item(2) : c.number("value", 0);
  std::vector<index_t> axes(static_cast<std::size_t>(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has(3)) axes = c.list(3);
  if (value != 0) x = x - value;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const index_t before = pads[i], after = pads[i + axes.size()];
    if (mode != "constant") x = continue_axis(x, axes[i], before, after, mode);
    else if (before < 0 || after < 0) skip_attribute("Pad by negative numbers");
    else x = pad(x, axes[i], before, after);
  }
  return {value != 0 ? x + value : x};
}

Outputs tile(Call& c) {
  Tensor x = c.in(0);
  const std::vector<index_t> repeats = c.list(1);
  for (std::size_t axis = 0; axis < repeats.size(); ++axis) x = repeat(x, static_cast<index_t>(axis), repeats[axis]);
  return {x};
}

Outputs triangle(Call& c) {
  const index_t k = c.has(1) ? static_cast<index_t>(c.item(1)) : 0;
  return {c.integer("upper", 1) != 0 ? triu(c.in(0), k) : tril(c.in(0), k)};
}

Outputs shape(Call& c) {
  const Tensor& x = c.in(0);
  const std::vector<index_t> sizes(x.shape().begin(), x.shape().end());
  return {slice(list_of(sizes), 0, {c.integer("start", 0), c.integer("end", x.rank())})};
}

/// (b, c, h, w) with the channels' blocks of s x s laid out in space, or back.
Outputs depth_to_space(Call& c) {
  const Tensor& x = c.in(0);
  const index_t s = c.integer("blocksize", 0), b = x.size(0), d = x.size(1) / (s * s), h = x.size(2), w = x.size(3);
  if (c.text("mode", "DCR") == "CRD") return {reshape(permute(reshape(x, {b, d, s, s, h, w}), {0, 1, 4, 2, 5, 3}), {b, d, h * s, w * s})};
  return {reshape(permute(reshape(x, {b, s, s, d, h, w}), {0, 3, 4, 1, 5, 2}), {b, d, h * s, w * s})};
}
Outputs space_to_depth(Call& c) {
  const Tensor& x = c.in(0);
  const index_t s = c.integer("blocksize", 0), b = x.size(0), d = x.size(1), h = x.size(2) / s, w = x.size(3) / s;
  return {reshape(permute(reshape(x, {b, d, h, s, w, s}), {0, 3, 5, 1, 2, 4}), {b, d * s * s, h, w})};
}

Outputs constant(Call& c) {
  if (c.has("value_int")) return {Tensor::scalar(static_cast<double>(c.integer("value_int", 0)), DType::i64)};
  if (c.has("value_ints")) return {list_of(c.list("value_ints"))};
  if (c.has("value_float")) return {Tensor::scalar(c.number("value_float", 0))};
  if (c.has("value_floats")) {
    const std::vector<double> values = c.numbers("value_floats");
    return {cast(Tensor::from(values, {static_cast<index_t>(values.size())}), DType::f32)};
  }
  return {c.tensor("value").tensor};
}

Outputs constant_of_shape(Call& c) {
  const Tensor value = c.has("value") ? reshape(c.tensor("value").tensor, {}) : Tensor::scalar(0);
  return {expand(value, shape_of(c.list(0)))};
}

Outputs range(Call& c) {
  const double start = c.item(0), stop = c.item(1), step = c.item(2);
  const auto count = static_cast<index_t>(std::max(0.0, std::ceil((stop - start) / step)));
  const DType dtype = c.in(0).dtype();
  return {add(mul(Tensor::arange(count, dtype), Tensor::scalar(step, dtype)), Tensor::scalar(start, dtype))};
}

Outputs eye_like(Call& c) {
  const Tensor& x = c.in(0);
  const Tensor rows = reshape(Tensor::arange(x.size(0)), {-1, 1}), columns = Tensor::arange(x.size(1));
  const Tensor diagonal = equal_to(add(rows, Tensor::scalar(static_cast<double>(c.integer("k", 0)), DType::i64)), columns);
  return {cast(diagonal, dtype_of(static_cast<Type>(c.integer("dtype", static_cast<index_t>(c.type(0))))))};
}

constexpr Entry entries[] = {
    {"Reshape", reshape_to},
    {"Flatten", flatten},
    {"Transpose", permute_axes},
    {"Squeeze", squeeze_axes},
    {"Unsqueeze", unsqueeze_axes},
    {"Expand", [](Call& c) -> Outputs { return {expand(c.in(0), broadcast_shapes(c.in(0).shape(), shape_of(c.list(1)), "Expand"))}; }},
    {"Slice", slice_axes},
    {"Split", split_axis},
    {"Concat", [](Call& c) -> Outputs { return {concat(c.all(), c.integer("axis", 1))}; }},
    {"Pad", pad_axes},
    {"Tile", tile},
    {"Trilu", triangle},
    {"Shape", shape},
    {"Size", [](Call& c) -> Outputs { return {Tensor::scalar(static_cast<double>(c.in(0).numel()), DType::i64)}; }},
    {"DepthToSpace", depth_to_space},
    {"SpaceToDepth", space_to_depth},
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"Range", range},
    {"EyeLike", eye_like},
};

}  // namespace

std::span<const Entry> layout_operators() { return entries; }

}  // namespace gradus::onnx
