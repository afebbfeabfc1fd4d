#include "optim/clip.hpp"

#include <algorithm>
#include <cmath>

#include "engine/core/events.hpp"
#include "engine/core/parallel.hpp"
#include "engine/tensor/compute.hpp"
#include "engine/tensor/view.hpp"

namespace gradus {
namespace {

constexpr index_t lanes = 8;  // independent sums, so that additions need not wait for each other

/// Sum of (scale g)^2 in double: lanes inside fixed blocks, then the blocks in order.
double sum_of_squares(const Tensor& gradient, double scale) {
  const Tensor g = contiguous(gradient);
  const index_t n = g.numel(), block = compute::elementwise_grain;
  std::vector<double, PoolAllocator<double>> sums(static_cast<std::size_t>((n + block - 1) / block));
  visit_floating(g.dtype(), "clip_by_norm", [&](auto tag) {
    const auto* data = g.data<decltype(tag)>();
    parallel_for(n, block, [&](index_t begin, index_t end) {
      double sum[lanes] = {};
      const auto add = [&](index_t i, index_t lane) {
        const double value = scale * static_cast<double>(data[i]);
        sum[lane] += value * value;
      };
      index_t i = begin;
      for (; i + lanes <= end; i += lanes)
        for (index_t lane = 0; lane < lanes; ++lane) add(i + lane, lane);
      for (index_t lane = 0; i < end; ++i, ++lane) add(i, lane);
      double all = 0;
      for (const double one : sum) all += one;
      sums[static_cast<std::size_t>(begin / block)] = all;
    });
  });
  double total = 0;
  for (const double one : sums) total += one;
  return total;
}

double joint_norm(const GradientList& gradients, double scale) {
  double sum = 0;
  for (const Tensor& gradient : gradients) sum += sum_of_squares(gradient, scale);
  return std::sqrt(sum) / scale;
}

double joint_norm(const GradientList& gradients) {
  const double norm = joint_norm(gradients, 1);
  // Squares of finite numbers above 1e154 overflow.
  return std::isinf(norm) ? joint_norm(gradients, 0x1p-600) : norm;
}

[[noreturn]] void refuse(const GradientList& gradients, double norm) {
  const auto bad = std::find_if(gradients.begin(), gradients.end(), [](const Tensor& g) { return !std::isfinite(sum_of_squares(g, 0x1p-600)); });
  throw ValueError("clip_by_norm", cat("the gradients have norm ", norm, "; the first that is not finite is that of parameter ", bad - gradients.begin()),
                   "look for its cause, or skip such steps");
}

void require_limit(const char* where, const char* what, double limit) {
  if (!(limit >= 0)) throw ValueError(where, cat(what, " is ", limit), "it must be >= 0");
}

Tensor apply(kernels::Binary op, const Tensor& a, double number) {
  Tensor out = Tensor::empty(a.shape(), a.dtype());
  compute::binary(op, a, Tensor::scalar(number, a.dtype()), out);
  return out;
}

}  // namespace

double clip_by_norm(GradientList& gradients, double max_norm, NonFinite non_finite) {
  require_limit("clip_by_norm", "max_norm", max_norm);
  const double norm = joint_norm(gradients);
  if (!std::isfinite(norm)) {
    if (non_finite == NonFinite::error) refuse(gradients, norm);
    count_event(Event::skipped_step);
    return norm;
  }
  if (norm > max_norm)
    for (Tensor& gradient : gradients) gradient = apply(kernels::Binary::mul, gradient, max_norm / norm);
  return norm;
}

void clip_by_value(GradientList& gradients, double limit) {
  require_limit("clip_by_value", "the limit", limit);
  for (Tensor& gradient : gradients) gradient = apply(kernels::Binary::maximum, apply(kernels::Binary::minimum, gradient, limit), -limit);
}

}  // namespace gradus
