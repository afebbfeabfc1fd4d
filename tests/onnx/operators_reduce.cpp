#include "engine/ops/layout.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/ops/scan.hpp"
#include "engine/ops/sort.hpp"
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
Tensor norm1(const Tensor& x, const ReduceOptions& o) { return norm(x, 1, o); }
Tensor norm2(const Tensor& x, const ReduceOptions& o) { return norm(x, 2, o); }
Tensor greatest(const Tensor& x, const ReduceOptions& o) { return x.dtype() == DType::boolean ? any(x, o) : max(x, o); }
Tensor least(const Tensor& x, const ReduceOptions& o) { return x.dtype() == DType::boolean ? all(x, o) : min(x, o); }
Tensor log_sum(const Tensor& x, const ReduceOptions& o) { return log(sum(x, o)); }

template <Tensor (*f)(const Tensor&, index_t, bool)>
Outputs arg(Call& c) {
  const Tensor& x = c.in(0);
  const index_t axis = c.integer("axis", 0);
  const bool keep = c.integer("keepdims", 1) != 0;
  if (c.integer("select_last_index", 0) == 0) return {f(x, axis, keep)};
  // Ours give the first of equals.
  return {sub(Tensor::scalar(static_cast<double>(x.size(axis) - 1), DType::i64), f(flip(x, axis), axis, keep))};
}

/// Exclusive: the sum before each element, that is the sums moved on by one with a zero first.
Outputs running_sum(Call& c) {
  const auto axis = static_cast<index_t>(c.item(1));
  const bool reverse = c.integer("reverse", 0) != 0;
  const Tensor y = cumsum(c.in(0), {.axis = axis, .reverse = reverse});
  if (c.integer("exclusive", 0) == 0) return {y};
  const index_t n = y.size(axis);
  return {reverse ? pad(slice(y, axis, {1, n}), axis, 0, 1) : pad(slice(y, axis, {0, n - 1}), axis, 1, 0)};
}

Outputs top(Call& c) {
  c.ignore("sorted");
  const index_t k = c.has(1) ? c.list(1).at(0) : c.integer("k", 0);
  const Topk best = topk(c.in(0), k, {.axis = c.integer("axis", -1), .largest = c.integer("largest", 1) != 0});
  return {best.values, best.indices};
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
    {"ReduceMax", reduction<greatest>},
    {"ReduceMin", reduction<least>},
    {"ReduceProd", reduction<prod>},
    {"ReduceLogSumExp", reduction<logsumexp>},
    {"ReduceSumSquare", reduction<sum_of_squares>},
    {"ReduceL1", reduction<norm1>},
    {"ReduceL2", reduction<norm2>},
    {"ReduceLogSum", reduction<log_sum>},
    {"CumSum", running_sum},
    {"TopK", top},
    {"ArgMax", arg<argmax>},
    {"ArgMin", arg<argmin>},
    {"GlobalAveragePool", [](Call& c) -> Outputs { return {mean(c.in(0), {.axes = space(c.in(0)), .keep = true})}; }},
    {"GlobalMaxPool", [](Call& c) -> Outputs { return {max(c.in(0), {.axes = space(c.in(0)), .keep = true})}; }},
};

}  // namespace

std::span<const Entry> reduce_operators() { return entries; }

}  // namespace gradus::onnx
