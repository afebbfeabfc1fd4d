#pragma once
// Randomness as data: a step that draws the number of a stream, and ops that read it. An op which must draw the same numbers in
// its forward, its backward and its composite takes such a stream as an input.

#include "engine/autograd/op.hpp"

namespace gradus {

/// A rank-0 i64 tensor naming a stream of the generator: new for every step and pass of the tape `like` is on. Its values are
/// not read.
[[nodiscard]] Tensor random_stream(const Tensor& like);
/// x / (1 - p) where element i of the stream exceeds p, else 0; 0 <= p < 1 (a ValueError otherwise). Elements count in row-major
/// order.
[[nodiscard]] Tensor dropout_by_stream(const Tensor& x, const Tensor& stream, double p, std::uint64_t seed);

[[nodiscard]] std::span<const OpDef* const> random_stream_ops();

}  // namespace gradus
