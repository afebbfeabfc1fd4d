// Normalisations and losses.

#include "engine/ops/layout.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/norms.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/onnx/operators.hpp"

namespace gradus::onnx {
namespace {

/// (C) as (C, 1, ..., 1) beside the channels of x.
Tensor per_channel(const Tensor& values, const Tensor& x) {
  Shape shape{values.numel()};
  for (int axis = 2; axis < x.rank(); ++axis) shape.push_back(1);
  return reshape(values, shape);
}

Outputs layer_normalization(Call& c) {
  const Tensor& x = c.in(0);
  const int axis = normalize_axis(c.integer("axis", -1), x.rank(), "LayerNormalization");
  const double eps = c.number("epsilon", 1e-5);
  c.ignore("stash_type");  // the precision of the statistics
  ReduceOptions over{.keep = true};
  for (int i = axis; i < x.rank(); ++i) over.axes.push_back(i);
  const Tensor y = layer_norm(x, {.axes = x.rank() - axis, .weight = c.in(1), .bias = c.has(2) ? c.in(2) : Tensor(), .eps = eps});
  return {y, mean(x, over), rsqrt(var(x, over) + eps)};
}

Outputs batch_normalization(Call& c) {
  const Tensor &x = c.in(0), &mean = c.in(3), &variance = c.in(4);
  c.ignore("spatial");
  c.ignore("is_test");
  BatchNormOptions options{.weight = c.in(1), .bias = c.in(2), .eps = c.number("epsilon", 1e-5), .momentum = 1 - c.number("momentum", 0.9), .correction = 0};
  if (c.integer("training_mode", 0) == 0) return {batch_norm(x, mean, variance, options)};
  const BatchNormStep step = batch_norm_train(x, mean, variance, options);
  return {step.y, step.running_mean, step.running_variance};
}

Outputs instance_normalization(Call& c) {
  const Tensor& x = c.in(0);
  const Tensor y = layer_norm(x, {.axes = x.rank() - 2, .eps = c.number("epsilon", 1e-5)});
  return {y * per_channel(c.in(1), x) + per_channel(c.in(2), x)};
}

/// Before operator set 21 scale and bias belonged to groups, not channels.
Outputs group_normalization(Call& c) {
  const Tensor& x = c.in(0);
  const index_t groups = c.integer("num_groups", 1), per_group = x.size(1) / groups;
  c.ignore("stash_type");
  const Tensor y = reshape(layer_norm(reshape(x, {x.size(0), groups, -1}), {.eps = c.number("epsilon", 1e-5)}), x.shape());
  const auto spread = [&](const Tensor& values) {
    return per_channel(c.opset() < 21 ? reshape(expand(reshape(values, {groups, 1}), {groups, per_group}), {-1}) : values, x);
  };
  return {y * spread(c.in(1)) + spread(c.in(2))};
}

Outputs mean_variance_normalization(Call& c) {
  const Tensor& x = c.in(0);
  const ReduceOptions over{.axes = shape_of(c.list("axes", {0, 2, 3})), .keep = true};
  return {(x - mean(x, over)) / (stddev(x, over) + 1e-9)};
}

/// ONNX has classes on axis 1, ours are the last.
Tensor classes_last(const Tensor& x) {
  Dims order{0};
  for (int axis = 2; axis < x.rank(); ++axis) order.push_back(axis);
  order.push_back(1);
  return permute(x, order);
}
Reduction reduction_of(Call& c) {
  const std::string name = c.text("reduction", "mean");
  return name == "none" ? Reduction::none : name == "sum" ? Reduction::sum : Reduction::mean;
}

Outputs negative_log_likelihood(Call& c) {
  return {
      nll_loss(classes_last(c.in(0)), c.in(1),
               {.ignore_index = c.integer("ignore_index", NllOptions::none), .class_weights = c.has(2) ? c.in(2) : Tensor(), .reduction = reduction_of(c)})};
}

Outputs softmax_cross_entropy(Call& c) {
  const Tensor& x = c.in(0);
  CrossEntropyOptions options{.ignore_index = c.integer("ignore_index", NllOptions::none), .reduction = reduction_of(c)};
  if (c.has(2)) options.class_weights = c.in(2);
  return {cross_entropy(classes_last(x), c.in(1), options), log_softmax(x, {.axis = 1})};
}

constexpr Entry entries[] = {
    {"LayerNormalization", layer_normalization},
    {"BatchNormalization", batch_normalization},
    {"InstanceNormalization", instance_normalization},
    {"GroupNormalization", group_normalization},
    {"MeanVarianceNormalization", mean_variance_normalization},
    {"NegativeLogLikelihoodLoss", negative_log_likelihood},
    {"SoftmaxCrossEntropyLoss", softmax_cross_entropy},
};

}  // namespace

std::span<const Entry> norm_operators() { return entries; }

}  // namespace gradus::onnx
