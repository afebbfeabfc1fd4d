#include "engine/ops/distance_gradient.hpp"

#include <limits>

#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/masked_product.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus::define {

MovedPoints moved_near_origin(const Tensor& x, const Tensor& c) {
  const index_t n = x.size(-2);
  if (n == 0) return {x, c};
  const auto point = [&](index_t i) { return slice(x.detached(), -2, {i, i + 1}); };
  const Tensor first = point(0), last = point(n - 1);
  const Tensor middle = maximum(minimum(first, last), minimum(maximum(first, last), point(n / 2)));
  const Tensor origin = where(less(abs(middle), std::numeric_limits<double>::infinity()), middle, 0.0);
  return {x - origin, c - origin};
}

Tensor distance_gradient(const Tensor& x, const Tensor& c, const Tensor& g, const Tensor& keep) {
  const Tensor total = sum(g, {.axes = {-1}, .keep = true});
  if (!keep.defined() || keep.numel() == 0) return 2.0 * (x * total - matmul(g, c));
  // A point that no entry reads is not to be multiplied by its sum of 0.
  const Tensor used = greater(max(cast(keep, x.dtype()), {.axes = {-1}, .keep = true}), 0.0);
  return 2.0 * (where(used, x, 0.0) * total - masked_matmul(g, c, keep));
}

}  // namespace gradus::define
