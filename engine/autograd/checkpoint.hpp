#pragma once
// Gradient checkpointing: memory for time. What happens inside a checkpoint is not kept but computed again in the backward pass.

#include "engine/autograd/tape.hpp"

namespace gradus {

/// f(inputs), recorded as one step that keeps the inputs only. Everything f differentiates must be among `inputs`: a tensor of
/// the outer tape that it captured is a GraphError. Random ops inside draw the same numbers again. The same gradients, bit for
/// bit, as without the checkpoint; second derivatives too. Off any tape this is f(inputs).
[[nodiscard]] Tensor checkpoint(const TensorFunction& f, std::span<const Tensor> inputs);

}  // namespace gradus
