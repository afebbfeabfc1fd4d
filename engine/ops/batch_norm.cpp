// Normalisation of channels by the statistics of a batch.
#include "engine/ops/define.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/norms.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus {
namespace {

using define::Inputs;

struct BatchNormAttributes {
  int axis;
  bool weight, bias;
  double eps;
};

Tensor train(const Tensor& x, const BatchNormOptions& options) {
  const Tensor zero = zeros({x.size(options.axis)}, x.dtype());
  return batch_norm_train(x, zero, zero, options).y;
}

const OpDef batch_norm_op = {
    .name = "batch_norm",
    .family = "norms",
    .formula = R"(y = \frac{x - \mu_c}{\sqrt{\sigma^2_c + \epsilon}} w_c + b_c)",
    .shapes = "(N, C, ...), mean (C), variance (C), weight (C), bias (C) -> (N, C, ...)",
    .law = "in training mean and variance are the batch's own, and a channel without elements is an error",
    .shape =
        [](Run& r) {
          define::like_floating_input(r);
          const auto& a = r.attr<BatchNormAttributes>();
          const index_t channels = r.in(0).shape()[a.axis];
          const std::array<const char*, 5> names{"x", "mean", "variance", a.weight ? "weight" : "bias", "bias"};
          for (int i = 1; i < r.inputs(); ++i) {
            define::require_same_dtype(r, 0, i);
            if (r.in(i).shape() != Shape{channels})
              throw ShapeError(r.name(), cat(names[static_cast<std::size_t>(i)], " has shape ", r.in(i).shape(), ", x has ", channels, " channels"),
                               "give one number a channel");
          }
          define::require_eps(r, a.eps);
        },
    .composite =
        [](Run& r) {
          const auto& a = r.attr<BatchNormAttributes>();
          Shape shape = Dims::filled(r.in(0).rank(), 1);
          shape[a.axis] = r.in(0).shape()[a.axis];
          const auto channel = [&](const Tensor& t) { return reshape(t, shape); };
          Tensor scale = rsqrt(r.in(2) + a.eps);
          if (a.weight) scale = scale * r.in(3);
          const Tensor y = (r.in(0) - channel(r.in(1))) * channel(scale);
          return a.bias ? y + channel(r.in(r.inputs() - 1)) : y;
        },
    .cases =
        [] {
          const auto vector = normal_input({3});
          const auto variance = uniform_input({3}, 0.5, 2);
          return std::vector<OpCase>{
              {"evaluation", {normal_input({4, 3}), vector, variance}, [](Inputs x) { return batch_norm(x[0], x[1], x[2]); }},
              {"weight and bias",
               {normal_input({2, 3, 4}), vector, variance, vector, vector},
               [](Inputs x) { return batch_norm(x[0], x[1], x[2], {.weight = x[3], .bias = x[4]}); }},
              {"bias only", {normal_input({2, 3}), vector, variance, vector}, [](Inputs x) { return batch_norm(x[0], x[1], x[2], {.bias = x[3]}); }},
              {"last axis, eps 0.5",
               {normal_input({4, 2, 3}), vector, variance},
               [](Inputs x) { return batch_norm(x[0], x[1], x[2], {.axis = -1, .eps = 0.5}); }},
              {"training", {normal_input({5, 3})}, [](Inputs x) { return train(x[0], {}); }},
              {"training, weight and bias", {normal_input({2, 3, 2, 2}), vector, vector}, [](Inputs x) { return train(x[0], {.weight = x[1], .bias = x[2]}); }},
              {"training, first axis", {normal_input({3, 6})}, [](Inputs x) { return train(x[0], {.axis = 0, .eps = 0.1}); }},
              {"empty", {normal_input({0, 3}), vector, variance}, [](Inputs x) { return batch_norm(x[0], x[1], x[2]); }}};
        },
};

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const BatchNormOptions& options) {
  const BatchNormAttributes a{normalize_axis(options.axis, x.rank(), "batch_norm"), options.weight.defined(), options.bias.defined(), options.eps};
  return define::apply_with(batch_norm_op, {&x, &mean, &variance}, {&options.weight, &options.bias}, a);
}

BatchNormStep batch_norm_train(const Tensor& x, const Tensor& running_mean, const Tensor& running_variance, const BatchNormOptions& options) {
  const int axis = normalize_axis(options.axis, x.rank(), "batch_norm");
  const index_t channels = x.shape()[axis], n = channels > 0 ? x.numel() / channels : 0;
  if (channels > 0 && n <= options.correction)
    throw ShapeError("batch_norm", cat(n, " elements a channel with correction ", options.correction), "a batch needs more of them than the correction");
  for (const Tensor* running : {&running_mean, &running_variance})
    if (running->shape() != Shape{channels})
      throw ShapeError("batch_norm", cat("running statistics have shape ", running->shape(), ", x has ", channels, " channels"), "give one number a channel");
  if (!(options.momentum >= 0 && options.momentum <= 1)) throw ValueError("batch_norm", cat("momentum ", options.momentum), "it is from 0 to 1");
  ReduceOptions over;
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis) over.axes.push_back(i);
  if (over.axes.empty()) throw ShapeError("batch_norm", cat("x has shape ", x.shape()), "give a batch of channels: (N, C, ...)");
  const Tensor batch_mean = mean(x, over), batch_variance = var(x, over);
  const auto moved = [&](const Tensor& running, const Tensor& batch) {
    return (1 - options.momentum) * running.detached() + options.momentum * batch.detached();
  };
  const double unbiased = static_cast<double>(n) / static_cast<double>(n - options.correction);
  return {batch_norm(x, batch_mean, batch_variance, options), moved(running_mean, batch_mean), moved(running_variance, batch_variance.detached() * unbiased)};
}

std::span<const OpDef* const> batch_norm_ops() {
  static const OpDef* const all[] = {&batch_norm_op};
  return all;
}

}  // namespace gradus
