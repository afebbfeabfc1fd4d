#pragma once
// Attention as a composition of other ops, and the backward of the fused op in terms of them. For engine/ops only.

#include "engine/autograd/tape.hpp"
#include "engine/ops/attention_blocks.hpp"

namespace gradus::define {

/// The inputs of an attention op by their roles: those of a run, or those saved for its backward.
[[nodiscard]] AttentionInputs inputs_of(const Run& r);
[[nodiscard]] AttentionInputs inputs_of(const Vjp& b);

/// Scores, weights and weighted sum, each recorded.
[[nodiscard]] AttentionResult attention_by_parts(const AttentionInputs& in, const AttentionAttributes& a);

/// Gradients of the fused op: in differentiable ops, from the parts computed anew, and by blocks.
void attention_vjp(Vjp& b);
void attention_fused_vjp(Vjp& b);

}  // namespace gradus::define
