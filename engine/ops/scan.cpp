#include "engine/ops/scan.hpp"

#include <algorithm>

#include "engine/core/parallel.hpp"
#include "engine/ops/define.hpp"
#include "engine/ops/layout.hpp"

namespace gradus {
namespace {

using define::Inputs;

struct ScanAttributes {
  int axis;
  bool reverse;
};

ScanAttributes normalised(const Tensor& x, const ScanOptions& options, const char* op) { return {normalize_axis(options.axis, x.rank(), op), options.reverse}; }

constexpr index_t strip = 256;  // columns that advance together, so that memory is walked in its order

// y = x at the first position of the axis, and y[i] = next(y[previous], i) + x[i] from there on, i counting elements of the
// whole tensors (row-major, of `shape`).
template <class T, class Next>
void scan(const Shape& shape, const ScanAttributes& a, const T* x, T* y, Next&& next) {
  index_t outer = 1, inner = 1;
  const index_t n = shape[a.axis];
  for (int i = 0; i < shape.rank(); ++i)
    if (i != a.axis) (i < a.axis ? outer : inner) *= shape[i];
  if (outer * n * inner == 0) return;
  const index_t strips = (inner - 1) / strip + 1, step = a.reverse ? -inner : inner;
  const index_t grain = std::max<index_t>(1, compute::elementwise_grain / (n * std::min(inner, strip)));
  parallel_for(outer * strips, grain, [&](index_t begin, index_t end) {
    for (index_t task = begin; task < end; ++task) {
      const index_t column = task % strips * strip, columns = std::min(strip, inner - column);
      index_t at = (task / strips * n + (a.reverse ? n - 1 : 0)) * inner + column;
      std::copy_n(x + at, columns, y + at);
      for (index_t k = 1; k < n; ++k) {
        at += step;
        for (index_t i = at; i < at + columns; ++i) y[i] = next(y[i - step], i) + x[i];
      }
    }
  });
}

// Each element moved one place along the axis, in the direction of the scan or against it; zeros move in.
Tensor shifted(const Tensor& x, const ScanAttributes& a, bool with_scan) {
  const index_t n = x.size(a.axis);
  if (n == 0) return x;
  return with_scan == a.reverse ? pad(slice(x, a.axis, {1}), a.axis, 0, 1) : pad(slice(x, a.axis, {0, n - 1}), a.axis, 1, 0);
}

const OpDef cumsum_op = {
    .name = "cumsum",
    .family = "scan",
    .formula = R"(y_i = \sum_{j \le i} x_j)",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = "summed in the order of the axis",
    .shape = define::like_floating_input,
    .forward =
        [](Run& r) {
          const Tensor x = contiguous(r.in(0));
          visit_floating(x.dtype(), "cumsum", [&](auto tag) {
            using T = decltype(tag);
            scan(x.shape(), r.attr<ScanAttributes>(), x.data<T>(), r.out().mutable_data<T>(), [](T previous, index_t) { return previous; });
          });
        },
    .vjp =
        [](Vjp& b) {
          const auto& a = b.attr<ScanAttributes>();
          b.to(0, cumsum(b.grad(), {.axis = a.axis, .reverse = !a.reverse}));
        },
    .cases =
        [] {
          return std::vector<OpCase>{{"last axis", {normal_input({3, 67})}, [](Inputs x) { return cumsum(x[0]); }},
                                     {"first axis, reversed", {normal_input({5, 4})}, [](Inputs x) { return cumsum(x[0], {.axis = 0, .reverse = true}); }},
                                     {"middle", {normal_input({2, 4, 3})}, [](Inputs x) { return cumsum(x[0], {.axis = 1}); }},
                                     {"one", {normal_input({1, 1})}, [](Inputs x) { return cumsum(x[0]); }},
                                     {"empty axis", {normal_input({3, 0})}, [](Inputs x) { return cumsum(x[0]); }},
                                     {"empty", {normal_input({0, 3})}, [](Inputs x) { return cumsum(x[0]); }}};
        },
};

const OpDef linear_scan_op = {
    .name = "linear_scan",
    .family = "scan",
    .formula = R"(h_0 = b_0,\quad h_i = a_i h_{i-1} + b_i)",
    .shapes = "(..., N, ...), (..., N, ...) -> (..., N, ...)",
    .law = "in the order of the axis; the first a is not read",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          define::require_same_dtype(r, 0, 1);
          if (r.in(0).shape() != r.in(1).shape()) throw ShapeError("linear_scan", cat("a is ", r.in(0).shape(), ", b is ", r.in(1).shape()), "expand one");
          r.declare(r.in(1).shape(), r.in(1).dtype());
        },
    .forward =
        [](Run& r) {
          const Tensor a = contiguous(r.in(0)), b = contiguous(r.in(1));
          visit_floating(a.dtype(), "linear_scan", [&](auto tag) {
            using T = decltype(tag);
            const T* factor = a.data<T>();
            scan(b.shape(), r.attr<ScanAttributes>(), b.data<T>(), r.out().mutable_data<T>(), [factor](T previous, index_t i) { return factor[i] * previous; });
          });
        },
    .vjp =
        [](Vjp& b) {
          // The adjoint runs the other way: s_i = g_i + a_{i+1} s_{i+1}.
          const auto& a = b.attr<ScanAttributes>();
          const Tensor s = linear_scan(shifted(b.input(0), a, false), b.grad(), {.axis = a.axis, .reverse = !a.reverse});
          if (b.needs(0)) b.to(0, s * shifted(b.output(), a, true));
          b.to(1, s);
        },
    .saves = save::input(0) | save::output,
    .cases =
        [] {
          const auto two = [](const Shape& shape) { return std::vector<InputSpec>{normal_input(shape), normal_input(shape)}; };
          return std::vector<OpCase>{{"last axis", two({3, 7}), [](Inputs x) { return linear_scan(x[0], x[1]); }},
                                     {"first axis, reversed", two({5, 4}), [](Inputs x) { return linear_scan(x[0], x[1], {.axis = 0, .reverse = true}); }},
                                     {"middle", two({2, 4, 3}), [](Inputs x) { return linear_scan(x[0], x[1], {.axis = 1}); }},
                                     {"one factor", {uniform_input({}, 0.5, 1), normal_input({2, 6})}, [](Inputs x) { return linear_scan(x[0], x[1]); }},
                                     {"zeros", {value_input({5}, {1, 0, 2, 0, 3}), normal_input({5})}, [](Inputs x) { return linear_scan(x[0], x[1]); }},
                                     {"empty axis", two({3, 0}), [](Inputs x) { return linear_scan(x[0], x[1]); }},
                                     {"empty", two({0, 3}), [](Inputs x) { return linear_scan(x[0], x[1]); }}};
        },
};

const OpDef cumprod_op = {
    .name = "cumprod",
    .family = "scan",
    .formula = R"(y_i = \prod_{j \le i} x_j)",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = "multiplied in the order of the axis; the gradient never divides, so that it is right with any number of zeros",
    .shape = define::like_floating_input,
    .composite =
        [](Run& r) {
          // The recurrence y_i = x_i y_{i-1} + b_i, whose b holds the first element and zeros.
          const auto& a = r.attr<ScanAttributes>();
          const Tensor& x = r.in(0);
          const index_t n = x.size(a.axis), first = a.reverse ? n - 1 : 0;
          if (n == 0) return x;
          const Tensor start = embed_slice(slice(x, a.axis, {first, first + 1}), a.axis, {first, first + 1}, n);
          return linear_scan(x, start, {.axis = a.axis, .reverse = a.reverse});
        },
    .cases =
        [] {
          return std::vector<OpCase>{
              {"last axis", {normal_input({3, 7})}, [](Inputs x) { return cumprod(x[0]); }},
              {"first axis, reversed", {normal_input({5, 4})}, [](Inputs x) { return cumprod(x[0], {.axis = 0, .reverse = true}); }},
              {"one zero, two zeros", {value_input({3, 4}, {2, 0, 3, -1, 0, 1.5, 0, 2, 0, 0, 0, 4})}, [](Inputs x) { return cumprod(x[0]); }},
              {"one", {normal_input({2, 1})}, [](Inputs x) { return cumprod(x[0]); }},
              {"empty", {normal_input({0, 3})}, [](Inputs x) { return cumprod(x[0]); }}};
        },
};

}  // namespace

Tensor cumsum(const Tensor& x, const ScanOptions& options) { return apply(cumsum_op, {&x}, normalised(x, options, "cumsum")); }
Tensor cumprod(const Tensor& x, const ScanOptions& options) { return apply(cumprod_op, {&x}, normalised(x, options, "cumprod")); }

Tensor linear_scan(const Tensor& a, const Tensor& b, const ScanOptions& options) {
  if (a.shape() == b.shape()) return apply(linear_scan_op, {&a, &b}, normalised(b, options, "linear_scan"));
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "linear_scan");
  const Tensor wide_a = expand(a, shape), wide_b = expand(b, shape);
  return apply(linear_scan_op, {&wide_a, &wide_b}, normalised(wide_b, options, "linear_scan"));
}

std::span<const OpDef* const> scan_ops() {
  static const OpDef* const all[] = {&cumsum_op, &cumprod_op, &linear_scan_op};
  return all;
}

}  // namespace gradus
