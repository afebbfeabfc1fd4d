#pragma once
// Gradient clipping: limits set between the backward pass and the optimiser's step.

#include "optim/optimizer.hpp"

namespace gradus {

/// What clip_by_norm does when the norm of the gradients is not a finite number.
enum class NonFinite : std::uint8_t {
  error,  ///< a ValueError that names the parameter
  skip    ///< counts Event::skipped_step and leaves the gradients alone; the caller must not step
};

/// Scales all gradients by max_norm / norm when their joint Euclidean norm is larger than `max_norm`; returns the norm from before.
/// The norm is summed in f64, with the same bits for any number of threads. A negative or NaN `max_norm` is a ValueError; an infinite one
/// only measures. Entries of the list are replaced, not written into.
///
///     const double norm = clip_by_norm(gradients, 1.0, NonFinite::skip);
///     if (std::isfinite(norm)) optimizer.step(parameters, gradients);
double clip_by_norm(GradientList& gradients, double max_norm, NonFinite non_finite = NonFinite::error);

/// Clamps every element to [-limit, limit]; NaN stays NaN. A negative or NaN `limit` is a ValueError.
void clip_by_value(GradientList& gradients, double limit);

}  // namespace gradus
