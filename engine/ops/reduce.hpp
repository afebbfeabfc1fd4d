#pragma once
// Reductions over any axes. An empty list of axes means all. Sums run in the fixed tree of kernels/reduce.hpp, so the bits
// depend on neither threads, instruction set (with fma) nor layout.

#include "engine/autograd/op.hpp"

namespace gradus {

struct ReduceOptions {
  Dims axes{};        ///< axes to reduce, negative ones from the end; empty: all
  bool keep = false;  ///< leave reduced axes as size 1
};

/// Of nothing: 0.
[[nodiscard]] Tensor sum(const Tensor& x, const ReduceOptions& options = {});
/// Of nothing: an error.
[[nodiscard]] Tensor mean(const Tensor& x, const ReduceOptions& options = {});
/// Largest and smallest element; NaN if there is one; ties share the gradient evenly. Of nothing: an error.
[[nodiscard]] Tensor max(const Tensor& x, const ReduceOptions& options = {});
[[nodiscard]] Tensor min(const Tensor& x, const ReduceOptions& options = {});
/// Of nothing: 1. The gradient is right with any number of zeros.
[[nodiscard]] Tensor prod(const Tensor& x, const ReduceOptions& options = {});
/// sum (x - mean)^2 / (n - correction): correction 0 is the population variance, 1 the sample variance. n <= correction is an error.
[[nodiscard]] Tensor var(const Tensor& x, const ReduceOptions& options = {}, index_t correction = 0);
/// The square root of var; gradient 0 where the variance is 0. (The op is called "std".)
[[nodiscard]] Tensor stddev(const Tensor& x, const ReduceOptions& options = {}, index_t correction = 0);
/// (sum |x|^p)^(1/p) for p = 1 or 2, max |x| for p = infinity; any other p is an error. Gradient 0 at the zero vector. Of nothing: 0.
/// p = 2 squares: elements beyond 1e154 (f32: 1e19) overflow, and as far below 1 they vanish.
[[nodiscard]] Tensor norm(const Tensor& x, double p = 2, const ReduceOptions& options = {});
/// Of a bool tensor: whether all, or any, are true. Of nothing: all is true, any is false. Not differentiable.
[[nodiscard]] Tensor all(const Tensor& x, const ReduceOptions& options = {});
[[nodiscard]] Tensor any(const Tensor& x, const ReduceOptions& options = {});
/// ln sum e^x, shifted by the maximum. Of nothing but -inf: -inf with gradient 0. Of nothing: -inf.
[[nodiscard]] Tensor logsumexp(const Tensor& x, const ReduceOptions& options = {});
/// Index (i64) of the largest or smallest along one axis; ties give the lowest index, NaN wins. Not differentiable.
[[nodiscard]] Tensor argmax(const Tensor& x, index_t axis, bool keep = false);
[[nodiscard]] Tensor argmin(const Tensor& x, index_t axis, bool keep = false);

[[nodiscard]] std::span<const OpDef* const> reduce_ops();
[[nodiscard]] std::span<const OpDef* const> statistics_ops();

}  // namespace gradus
