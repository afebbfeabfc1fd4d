#pragma once
// Losses: how far predictions are from their targets. Each gives one number for every element or row and then reduces them.
// Shapes of prediction and target must agree; nothing is broadcast.

#include "engine/ops/normalize.hpp"

namespace gradus {

/// What becomes of the elements of a loss. The mean of no elements is a ShapeError, their sum is 0.
enum class Reduction : std::uint8_t { none, sum, mean };

struct LossOptions {
  Reduction reduction = Reduction::mean;
};

/// (prediction - target)^2.
[[nodiscard]] Tensor mse_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});
/// |prediction - target|; gradient 0 where they agree.
[[nodiscard]] Tensor l1_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options = {});

struct HuberOptions {
  Number delta = 1.0;  ///< where the parabola becomes a line; finite and > 0
  Reduction reduction = Reduction::mean;
};
/// r^2 / 2 for |r| <= delta, else delta (|r| - delta / 2), with r = prediction - target.
[[nodiscard]] Tensor huber_loss(const Tensor& prediction, const Tensor& target, const HuberOptions& options = {});

struct BceOptions {
  Tensor positive_weight{};  ///< of the positive class; any shape that broadcasts to the logits'
  Reduction reduction = Reduction::mean;
};
/// -w t ln s(x) - (1 - t) ln(1 - s(x)) for logits x, targets t in [0, 1] and the logistic function s. Never overflows.
[[nodiscard]] Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const BceOptions& options = {});

struct HingeOptions {
  double margin = 1;  ///< finite
  Reduction reduction = Reduction::mean;
};
/// max(0, margin - t s) for scores s and targets t = -1 or 1; gradient 0 at the margin.
[[nodiscard]] Tensor hinge_loss(const Tensor& score, const Tensor& target, const HingeOptions& options = {});

/// sum_c p_c (ln p_c - log_q_c) of the distributions along the last axis: (..., C), (..., C) -> (...) before reduction, so the
/// mean is over distributions. 0 ln 0 = 0; p_c = 0 costs nothing even where log_q_c is -inf.
[[nodiscard]] Tensor kl_div(const Tensor& log_q, const Tensor& p, const LossOptions& options = {});

/// ln softmax(logits) over the last axis, at one class a row: (..., C), indices (...), i64 -> (...). An index outside 0 .. C - 1
/// is an IndexError that names it.
[[nodiscard]] Tensor log_softmax_at(const Tensor& logits, const Tensor& target);

struct NllOptions {
  static constexpr index_t none = std::numeric_limits<index_t>::min();
  index_t ignore_index = none;  ///< targets of this value count for nothing; their rows are not read
  Tensor class_weights{};       ///< (C): a target of class c counts w_c times, in the mean's divisor too
  Reduction reduction = Reduction::mean;
};
/// -log_p[target] for log-probabilities (..., C) and class indices (...), i64. A target outside 0 .. C - 1 is an IndexError that
/// names it. The mean is over targets that are not ignored; when all are, it is a ValueError (their sum is 0).
[[nodiscard]] Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const NllOptions& options = {});

struct CrossEntropyOptions {
  index_t ignore_index = NllOptions::none;  ///< as for nll_loss; class indices only
  double label_smoothing = 0;               ///< in [0, 1): this share of every target is spread over all classes
  Tensor class_weights{};                   ///< (C); class indices: as for nll_loss, soft labels: factors of the terms
  Reduction reduction = Reduction::mean;
};
/// -sum_c t_c ln softmax(logits)_c over the last axis. Targets are class indices (...), i64, or soft labels (..., C) of the
/// logits' dtype. Shifted by the maximum, so equal logits of any size give ln C. 0 ln 0 = 0.
[[nodiscard]] Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options = {});

[[nodiscard]] std::span<const OpDef* const> loss_ops();
[[nodiscard]] std::span<const OpDef* const> classification_loss_ops();

}  // namespace gradus
