#pragma once
// Normalisation of activations: by the statistics of each row (layer, RMS, L2) or of each channel over a batch.

#include "engine/autograd/op.hpp"

namespace gradus {

struct LayerNormOptions {
  int axes = 1;       ///< how many last axes are normalised together
  Tensor weight{};    ///< of their shape; none: 1
  Tensor bias{};      ///< of their shape; none: 0
  double eps = 1e-5;  ///< inside the square root; finite and > 0, also in x's dtype
};
/// y = (x - mean) / sqrt(var + eps) weight + bias over the last axes, var being the population variance. A constant row gives the
/// bias and a finite gradient. Rows without elements are a ShapeError.
[[nodiscard]] Tensor layer_norm(const Tensor& x, const LayerNormOptions& options = {});

struct RmsNormOptions {
  int axes = 1;
  Tensor weight{};
  double eps = 1e-6;
};
/// y = x / sqrt(mean(x^2) + eps) weight over the last axes. A row of zeros gives zeros and a finite gradient.
[[nodiscard]] Tensor rms_norm(const Tensor& x, const RmsNormOptions& options = {});

/// y = x / ||x|| along one axis, without overflow or underflow on the way; a zero vector gives zeros with gradient 0.
[[nodiscard]] Tensor l2_normalize(const Tensor& x, index_t axis = -1);

struct BatchNormOptions {
  index_t axis = 1;        ///< of the C channels
  Tensor weight{};         ///< (C); none: 1
  Tensor bias{};           ///< (C); none: 0
  double eps = 1e-5;       ///< inside the square root; finite and > 0, also in x's dtype
  double momentum = 0.1;   ///< training: share of the batch in the new running statistics, from 0 to 1
  index_t correction = 1;  ///< training: the running variance is divided by n - correction
};
/// Evaluation: y = (x - mean) / sqrt(variance + eps) weight + bias with a mean and variance (C) for each channel, which may be
/// variables themselves.
[[nodiscard]] Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const BatchNormOptions& options = {});

/// What a training step of batch normalisation gives. Nothing is kept inside: the caller hands the statistics to the next step.
struct BatchNormStep {
  Tensor y;
  Tensor running_mean, running_variance;  ///< updated, (C), on no tape
};
/// Training: normalises by the batch's own mean and population variance (gradients flow through both) and moves the running ones:
/// (1 - momentum) running + momentum batch. A channel needs more elements than the correction, else a ShapeError.
[[nodiscard]] BatchNormStep batch_norm_train(const Tensor& x, const Tensor& running_mean, const Tensor& running_variance, const BatchNormOptions& options = {});

[[nodiscard]] std::span<const OpDef* const> norms_ops();
[[nodiscard]] std::span<const OpDef* const> batch_norm_ops();

}  // namespace gradus
