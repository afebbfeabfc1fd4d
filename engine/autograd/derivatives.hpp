#pragma once
// Derivatives of functions of tensors: products with Jacobians and Hessians, whole matrices where they are small, and the ends
// of a Hessian's spectrum. Floating inputs are differentiated, index and bool inputs are constants.
//
// Where a matrix is returned its rows or columns run over the elements of all floating inputs, one input after the other, each
// in row-major order.

#include "engine/autograd/tape.hpp"

namespace gradus {

/// Gradients of y (on a tape) with respect to each of `inputs`, which are on the same tape; with `record` they are on it too.
[[nodiscard]] std::vector<Tensor> grad(Tape& tape, const Tensor& y, std::span<const Tensor> inputs, const BackwardOptions& options = {});

/// J v: the change of f(x) when x moves along v, by two reverse passes. `direction` has one tensor like each floating input.
[[nodiscard]] Tensor jvp(const TensorFunction& f, std::span<const Tensor> inputs, std::span<const Tensor> direction);
/// J^T u, one tensor for each floating input.
[[nodiscard]] std::vector<Tensor> vjp(const TensorFunction& f, std::span<const Tensor> inputs, const Tensor& cotangent);
/// H v for f with one number as value; one tensor for each floating input.
[[nodiscard]] std::vector<Tensor> hvp(const TensorFunction& f, std::span<const Tensor> inputs, std::span<const Tensor> direction);

/// The (M, N) matrix of derivatives of the M elements of f(x).
[[nodiscard]] Tensor jacobian(const TensorFunction& f, std::span<const Tensor> inputs);
/// The (N, N) matrix of second derivatives of f, whose value is one number.
[[nodiscard]] Tensor hessian(const TensorFunction& f, std::span<const Tensor> inputs);

struct SpectrumOptions {
  int iterations = 100;     ///< Lanczos steps at most
  double tolerance = 1e-8;  ///< on both residuals, relative to the largest |eigenvalue|
  std::uint64_t seed = 1;   ///< of the start vector
};

/// Ends of a Hessian's spectrum. Each lies within its residual of a true eigenvalue.
struct Spectrum {
  double smallest = 0, largest = 0;
  double smallest_residual = 0, largest_residual = 0;  ///< ||H v - lambda v||
  int iterations = 0;
};
/// Smallest and largest eigenvalue of the Hessian by Lanczos iteration with full reorthogonalisation: products only, no matrix.
[[nodiscard]] Spectrum hessian_spectrum(const TensorFunction& f, std::span<const Tensor> inputs, const SpectrumOptions& options = {});

}  // namespace gradus
