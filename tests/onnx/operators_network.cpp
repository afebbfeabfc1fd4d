#include "engine/ops/dropout.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/linear.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/onnx/operators.hpp"

namespace gradus::onnx {
namespace {

/// Along `axis`; before operator set 13 over all axes from it on (1 by default).
template <class F>
Outputs along(Call& c, F&& f) {
  const Tensor& x = c.in(0);
  if (c.opset() >= 13) return {f(x, c.integer("axis", -1))};
  const int axis = normalize_axis(c.integer("axis", 1), x.rank(), "Softmax");
  index_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= x.shape()[i];
  return {reshape(f(reshape(x, {rows, -1}), -1), x.shape())};
}

Outputs hardmax_first(Call& c) {
  return along(c, [](const Tensor& x, index_t axis) {
    const Tensor ours = hardmax(x, axis);
    if (!equal(max(ours, {.axes = {axis}}), Tensor::ones(reduced_shape(x.shape(), {normalize_axis(axis, x.rank(), "Hardmax")}, false))))
      skip_law("hardmax shares the weight among equal entries");
    return ours;
  });
}

Outputs gemm(Call& c) {
  Tensor a = c.in(0), b = c.in(1);
  if (c.opset() < 7) c.ignore("broadcast");
  if (c.integer("transA", 0) != 0) a = transpose(a);
  if (c.integer("transB", 0) != 0) b = transpose(b);
  const Tensor product = c.number("alpha", 1) * matmul(a, b);
  const double beta = c.number("beta", 1);
  return {c.has(2) ? product + beta * c.in(2) : product};
}

/// Without training it passes its input on; trained, only when nothing is dropped, since the choice is random.
Outputs dropout_off(Call& c) {
  const double ratio = c.has(1) ? c.item(1) : c.number("ratio", 0.5);
  const bool training = c.has(2) && c.item(2) != 0;
  c.ignore("seed");
  if (training && ratio != 0) skip_attribute("Dropout in training, whose choice is random");
  return {dropout(c.in(0), ratio, {.training = training}), dropout_mask(c.in(0), 0)};
}

Outputs einstein_sum(Call& c) {
  const std::string equation = c.text("equation", "");
  if (c.inputs() > 2) skip_attribute("Einsum of more than two inputs");
  return {c.inputs() == 1 ? einsum(equation, c.in(0)) : einsum(equation, c.in(0), c.in(1))};
}

constexpr Entry entries[] = {
    {"Softmax", [](Call& c) { return along(c, [](const Tensor& x, index_t axis) { return softmax(x, {.axis = axis}); }); }},
    {"LogSoftmax", [](Call& c) { return along(c, [](const Tensor& x, index_t axis) { return log_softmax(x, {.axis = axis}); }); }},
    {"Hardmax", hardmax_first},
    {"MatMul", [](Call& c) -> Outputs { return {matmul(c.in(0), c.in(1))}; }},
    {"Gemm", gemm},
    {"Dropout", dropout_off},
    {"Einsum", einstein_sum},
};

}  // namespace

std::span<const Entry> network_operators() { return entries; }

}  // namespace gradus::onnx
