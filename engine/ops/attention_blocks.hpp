#pragma once
// Attention with softmax or normalised linear weights in blocks of queries and keys, so that no (Tq, Tk) matrix is ever held.
// For engine/ops only.

#include "engine/ops/attention.hpp"
#include "engine/ops/masked_accumulate.hpp"

namespace gradus::define {

struct AttentionAttributes {
  MapKind map;
  Score score;
  bool hard, causal;
  bool tensor_temperature, dropped;  // whether there are inputs for them
  double inverse_temperature, alpha, dropout;
  std::uint64_t map_seed, dropout_seed;
};

/// The inputs of an attention op: q, k, v, the inverse temperature if it is a tensor, the stream of dropout if there is any, then
/// masks, each broadcasting to the weights.
struct AttentionInputs {
  Tensor q, k, v, beta, stream;
  Scratch<Tensor> masks;
  [[nodiscard]] Shape batch() const;
};

/// score = score_factor * (dot product or squared distance)
[[nodiscard]] double score_factor(Score score, index_t d);

/// Writes the output (..., Tq, Dv) and for each query (..., Tq, 2) what its scores sum to: of softmax the maximum m and
/// ln sum_j e^{z_j - m}, of normalised linear weights sum_j z_j and 0.
void attention_forward(const AttentionInputs& in, const AttentionAttributes& a, Tensor& out, Tensor& sums);

/// Gradients at the broadcast batch; an undefined tensor is not wanted. `beta` is rank 0.
struct AttentionGradients {
  Tensor q, k, v, beta;
};
void attention_backward(const AttentionInputs& in, const AttentionAttributes& a, const Tensor& out, const Tensor& sums, const Tensor& grad,
                        AttentionGradients& gradients);

}  // namespace gradus::define
