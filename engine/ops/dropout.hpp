#pragma once
// Random omission of elements.

#include "engine/autograd/op.hpp"

namespace gradus {

struct DropoutOptions {
  bool training = true;    ///< false: x itself
  bool always_on = false;  ///< active also where training is false, as some published models were
  std::uint64_t seed = 0;  ///< of the mask, together with the pass and the place on the tape
};

/// y_i = 0 with probability p, else x_i / (1 - p); p in [0, 1). Backward uses the mask of the forward pass, and a training replay
/// draws a new one. An omitted element is not read: its NaN is not seen.
[[nodiscard]] Tensor dropout(const Tensor& x, double p, const DropoutOptions& options = {});
/// The mask itself, of x's shape: true where an element is kept. A value depends on (seed, pass, place on the tape, index) alone.
[[nodiscard]] Tensor dropout_mask(const Tensor& x, double p, std::uint64_t seed = 0);

[[nodiscard]] std::span<const OpDef* const> dropout_ops();

}  // namespace gradus
