#pragma once
// Vector quantisation: tokens replaced by codes of a book, hard (the nearest) or soft (their average), with the losses that move
// both towards each other.

#include "engine/ops/clustering_loss.hpp"

namespace gradus {

/// `value`, with every gradient sent to `carrier` instead, as if the one were the other. Shapes must agree.
[[nodiscard]] Tensor straight_through(const Tensor& value, const Tensor& carrier);

/// The nearest row of a codebook (K, D) for each token (..., D); ties go to the first. Straight-through: its gradient goes to z
/// unchanged, and none to the codebook.
[[nodiscard]] Tensor vector_quantize(const Tensor& z, const Tensor& codebook);

struct VqOptions {
  Number commitment = 0.25;  ///< weight of the pull of z towards its code; finite and > 0
  Reduction reduction = Reduction::mean;
};
/// ||sg(z_t) - e_t||^2 + commitment ||z_t - sg(e_t)||^2 for tokens (..., T, D) and their nearest codes e; sg stops gradients.
[[nodiscard]] Tensor vq_loss(const Tensor& z, const Tensor& codebook, const VqOptions& options = {});

/// Tokens (..., T, D) after quantisation.
struct Quantized {
  Tensor output;  ///< (..., T, D), what a decoder reads
  Tensor codes;   ///< index of the nearest code, i64 (..., T)
  Tensor loss;
};
/// vector_quantize and vq_loss at once.
[[nodiscard]] Quantized hard_quantize(const Tensor& z, const Tensor& codebook, const VqOptions& options = {});

struct SoftVqOptions {
  Number tau = 1.0;          ///< of the Boltzmann assignment q
  Number commitment = 0.25;  ///< factor of L_q; finite and > 0
  bool hard_output = false;  ///< forward the nearest code, backward as the soft one (straight-through)
  Reduction reduction = Reduction::mean;
};
/// The soft codebook: output sum_k q_tk p_k, loss commitment * L_q.
[[nodiscard]] Quantized soft_quantize(const Tensor& z, const Tensor& codebook, const SoftVqOptions& options = {});

[[nodiscard]] std::span<const OpDef* const> quantize_ops();

}  // namespace gradus
