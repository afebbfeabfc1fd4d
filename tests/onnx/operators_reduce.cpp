#include "engine/ops/reduce.hpp"
#include "tests/onnx/operators.hpp"

namespace gradus::onnx {
namespace {

using Reduce = Tensor (*)(const Tensor&, const ReduceOptions&);

template <Reduce f>
Outputs reduction(Call& c) {
  const std::vector<index_t> axes = c.list(1, "axes");
  const bool keep = c.integer("keepdims", 1) != 0;
  if (c.integer("noop_with_empty_axes", 0) != 0 && axes.empty()) return {c.in(0)};
  try {
    return {f(c.in(0), {.axes = shape_of(axes), .keep = keep})};
  } catch (const ShapeError&) {
    if (c.in(0).numel() == 0) skip_law("the mean, maximum or minimum of nothing is an error");
    throw;
  }
}

Tensor sum_of_squares(const Tensor& x, const ReduceOptions& o) { return sum(square(x), o); }
Tensor norm1(const Tensor& x, const ReduceOptions& o) { return sum(abs(x), o); }
Tensor norm2(const Tensor& x, const ReduceOptions& o) { return sqrt(sum_of_squares(x, o)); }
Tensor log_sum(const Tensor& x, const ReduceOptions& o) { return log(sum(x, o)); }

template <Tensor (*f)(const Tensor&, index_t, bool)>
Outputs arg(Call& c) {
  if (c.integer("select_last_index", 0) != 0) skip_attribute("ArgMax/ArgMin.select_last_index: ours give the first of equals");
  return {f(c.in(0), c.integer("axis", 0), c.integer("keepdims", 1) != 0)};
}

/// All axes behind batch and channel.
Dims space(const Tensor& x) {
  Dims axes;
  for (int axis = 2; axis < x.rank(); ++axis) axes.push_back(axis);
  return axes;
}

constexpr Entry entries[] = {
    {"ReduceSum", reduction<sum>},
    {"ReduceMean", reduction<mean>},
    {"ReduceMax", reduction<max>},
    {"ReduceMin", reduction<min>},
    {"ReduceLogSumExp", reduction<logsumexp>},
    {"ReduceSumSquare", reduction<sum_of_squares>},
    {"ReduceL1", reduction<norm1>},
    {"ReduceL2", reduction<norm2>},
    {"ReduceLogSum", reduction<log_sum>},
    {"ArgMax", arg<argmax>},
    {"ArgMin", arg<argmin>},
    {"GlobalAveragePool", [](Call& c) -> Outputs { return {mean(c.in(0), {.axes = space(c.in(0)), .keep = true})}; }},
    {"GlobalMaxPool", [](Call& c) -> Outputs { return {max(c.in(0), {.axes = space(c.in(0)), .keep = true})}; }},
};

}  // namespace

std::span<const Entry> reduce_operators() { return entries; }

}  // namespace gradus::onnx
