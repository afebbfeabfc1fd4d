// Equality and approximate comparison of tensors.
#include <cmath>
#include <cstring>

#include "engine/tensor/view.hpp"

namespace gradus {
namespace {

// Calls f(a, b) on every pair of elements in row-major order until it returns false.
template <class F>
bool all_pairs(const Tensor& a, const Tensor& b, F&& f) {
  const Tensor x = contiguous(a), y = contiguous(b);
  return visit_dtype(a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T *p = x.data<T>(), *q = y.data<T>();
    for (index_t i = 0; i < x.numel(); ++i)
      if (!f(p[i], q[i])) return false;
    return true;
  });
}

bool same_kind(const Tensor& a, const Tensor& b) { return a.shape() == b.shape() && a.dtype() == b.dtype(); }

void require_same_kind(const Tensor& a, const Tensor& b, const char* where) {
  if (a.shape() != b.shape()) throw ShapeError(where, cat("shapes differ: ", a.shape(), " and ", b.shape()), "compare tensors of one shape");
  if (a.dtype() != b.dtype()) throw DTypeError(where, cat("dtypes differ: ", name_of(a.dtype()), " and ", name_of(b.dtype())), "cast one of them");
}

}  // namespace

bool equal(const Tensor& a, const Tensor& b, bool nan_equal) {
  return same_kind(a, b) && all_pairs(a, b, [&](auto x, auto y) { return x == y || (nan_equal && x != x && y != y); });
}

bool bit_equal(const Tensor& a, const Tensor& b) {
  return same_kind(a, b) && all_pairs(a, b, [](auto x, auto y) { return std::memcmp(&x, &y, sizeof x) == 0; });
}

bool all_close(const Tensor& a, const Tensor& b, double relative, double absolute) {
  require_same_kind(a, b, "all_close");
  return all_pairs(a, b, [&](auto x, auto y) {
    const double p = static_cast<double>(x), q = static_cast<double>(y);
    return p == q || (std::isfinite(q) && std::fabs(p - q) <= absolute + relative * std::fabs(q));
  });
}

double max_difference(const Tensor& a, const Tensor& b) {
  require_same_kind(a, b, "max_difference");
  double worst = 0;
  all_pairs(a, b, [&](auto x, auto y) {
    const double p = static_cast<double>(x), q = static_cast<double>(y);
    const double difference = p == q ? 0 : std::fabs(p - q);
    if (!(difference <= worst)) worst = difference;  // a NaN difference sticks
    return worst == worst;
  });
  return worst;
}

}  // namespace gradus
