#pragma once
// Attention: scores between queries and keys, a map from scores to weights, and the weighted sum of values.

#include "engine/ops/maps.hpp"

namespace gradus {

enum class Score : std::uint8_t {
  dot,         ///< q . k
  scaled_dot,  ///< q . k / sqrt(D)
  euclidean,   ///< -||q - k||^2
};

struct AttentionSpec {
  Score score = Score::scaled_dot;
  MapSpec map{};                   ///< scores to weights, with the inverse temperature of the scores; any kind but log_softmax
  Tensor key_mask{};               ///< bool (..., Tk), true keeps a key for every query; broadcasts to the batch of q, k and v
  Tensor mask{};                   ///< (..., Tq, Tk) up to broadcasting: bool (true keeps), or floating, added to beta * score
  bool causal = false;             ///< query i sees keys 0 .. i
  double dropout = 0;              ///< probability of dropping a weight, 0 <= p < 1; the others are divided by 1 - p
  std::uint64_t dropout_seed = 0;  ///< on a tape each pass and step draws anew
  int heads = 1;                   ///< above 1: the last axes of q, k and v are split into so many heads, and joined again
};

/// y_i = sum_j w_ij v_j with weights w_i = map(score(q_i, k_j) over j), for q (..., Tq, D), k (..., Tk, D), v (..., Tk, Dv):
/// (..., Tq, Dv); batch axes broadcast. With heads the batch of masks is that of the split tensors, (..., H, Tq, Tk), save that
/// key_mask keeps the batch of q: (..., Tk).
/// Keys and values masked by a bool mask are not read for that query; a query without keys gives zeros and has gradient 0.
/// Softmax and normalised linear weights are never held as a matrix: time O(Tq Tk), extra memory O(Tq).
/// A ShapeError, DTypeError or ValueError names what does not fit, before any work.
[[nodiscard]] Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& spec = {});

struct AttentionResult {
  Tensor output;
  Tensor weights;  ///< (..., Tq, Tk), with heads (..., H, Tq, Tk); as the map gave them, before dropout
};
/// The same with the weights, recorded as its parts.
[[nodiscard]] AttentionResult attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& spec = {});

[[nodiscard]] std::span<const OpDef* const> attention_ops();

}  // namespace gradus
