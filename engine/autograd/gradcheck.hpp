#pragma once
// Derivatives checked against finite differences, in f64, with a random cotangent (all ones would cancel in normalisations).

#include <string>

#include "engine/autograd/tape.hpp"

namespace gradus {

struct GradcheckOptions {
  double tolerance = 1e-6;  ///< on |analytic - numeric| / max(1, |numeric|)
  std::uint64_t seed = 1;   ///< of the cotangents
};

struct GradcheckResult {
  bool passed = true;
  double worst = 0;  ///< largest relative error
  int input = -1;    ///< where it is
  index_t element = -1;
  double analytic = 0, numeric = 0;
  /// "input 0, element 3: analytic 1.01, numeric 1"
  [[nodiscard]] std::string describe() const;
};

/// Compares the gradients of f at `inputs` with central differences. Integer and bool inputs are constants; the others must be
/// f64 (a DTypeError otherwise).
[[nodiscard]] GradcheckResult gradcheck(const TensorFunction& f, std::span<const Tensor> inputs, const GradcheckOptions& options = {});
/// The same for the gradients themselves: recorded second derivatives against differences of first ones.
[[nodiscard]] GradcheckResult gradcheck_second(const TensorFunction& f, std::span<const Tensor> inputs, const GradcheckOptions& options = {});

/// Standard normal numbers of a shape, from (seed, stream).
[[nodiscard]] Tensor random_normal(const Shape& shape, DType dtype, std::uint64_t seed, std::uint64_t stream = 0);
/// Uniform on (low, high).
[[nodiscard]] Tensor random_uniform(const Shape& shape, DType dtype, double low, double high, std::uint64_t seed, std::uint64_t stream = 0);

}  // namespace gradus
