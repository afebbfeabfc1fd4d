#include "engine/ops/normalize.hpp"

#include <cmath>

#include "engine/core/events.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/map_rows.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus {
namespace {

using define::Inputs;

using define::along_axis;
using define::is_negative_infinity;
using define::like_input_along_axis;
using define::MapAttributes;

template <class T>
const kernels::SoftmaxKernels<T>& rows_kernels() {
  return kernels::active<T>().softmax;
}

std::vector<OpCase> map_cases(Tensor (*last)(Inputs), Tensor (*first)(Inputs), Tensor (*middle)(Inputs), double low, double high) {
  const auto in = [&](const Shape& shape) { return uniform_input(shape, low, high); };
  return {{"1 x 1", {in({1, 1})}, last},       {"3 x 7", {in({3, 7})}, last},       {"64 x 5", {in({64, 5})}, last}, {"2 x 67", {in({2, 67})}, last},
          {"first axis", {in({5, 3})}, first}, {"middle", {in({2, 4, 3})}, middle}, {"empty", {in({0, 4})}, last},   {"empty axis", {in({4, 0})}, last}};
}

const OpDef softmax_op = {
    .name = "softmax",
    .family = "normalize",
    .formula = R"(y_i = e^{\beta (x_i - m)} / \sum_j e^{\beta (x_j - m)},\ m = \max_j x_j)",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = "a row of -inf only: zeros, gradient 0; NaN or +inf in a row: NaN; weights below the smallest normal number are exactly 0",
    .shape = like_input_along_axis,
    .forward =
        [](Run& r) {
          const auto& a = r.attr<MapAttributes>();
          along_axis<1>({r.in(0)}, r.out(), a.axis, [&]<class T>(const std::array<const T*, 1>& x, T* y, index_t rows, index_t n) {
            rows_kernels<T>().softmax(x[0], rows, n, static_cast<T>(a.inverse_temperature), y);
          });
        },
    .vjp =
        [](Vjp& b) {
          const auto& a = b.attr<MapAttributes>();
          const Tensor y = b.output();
          // A weight of 0 is out of reach: whatever arrives there must not come back as 0 * inf.
          const Tensor gy = where(equal_to(y, 0.0), 0.0, b.grad() * y);
          b.to(0, a.inverse_temperature * (gy - y * sum(gy, {.axes = {a.axis}, .keep = true})));
        },
    .fused_vjp =
        [](Vjp& b) {
          const auto& a = b.attr<MapAttributes>();
          Tensor gx = Tensor::empty(b.input_shape(0), b.grad().dtype());
          along_axis<2>({b.output(), b.grad()}, gx, a.axis, [&]<class T>(const std::array<const T*, 2>& in, T* out, index_t rows, index_t n) {
            rows_kernels<T>().softmax_backward(in[0], in[1], rows, n, static_cast<T>(a.inverse_temperature), out);
          });
          b.to(0, gx);
        },
    .composite =
        [](Run& r) {
          const auto& a = r.attr<MapAttributes>();
          const Tensor& x = r.in(0);
          if (x.size(a.axis) == 0) return x * 1.0;
          const ReduceOptions along{.axes = {a.axis}, .keep = true};
          const Tensor top = max(x, along).detached();
          const Tensor masked = is_negative_infinity(x);
          const Tensor weights = where(masked, 0.0, exp(a.inverse_temperature * (x - where(is_negative_infinity(top), 0.0, top))));
          const Tensor total = sum(weights, along);
          return where(masked, 0.0, weights / where(equal_to(total, 0.0), 1.0, total));
        },
    .saves = save::output,
    .cases =
        [] {
          auto all = map_cases([](Inputs x) { return softmax(x[0]); }, [](Inputs x) { return softmax(x[0], {.axis = 0}); },
                               [](Inputs x) { return softmax(x[0], {.axis = 1}); }, -2, 2);
          all.push_back({"inverse temperature 10", {normal_input({3, 5})}, [](Inputs x) { return softmax(x[0], {.inverse_temperature = 10.0}); }});
          all.push_back({"inverse temperature a tensor", {normal_input({3, 5}), uniform_input({}, 0.5, 2)}, [](Inputs x) {
                           return softmax(x[0], {.inverse_temperature = x[1]});
                         }});
          return all;
        },
};

const OpDef log_softmax_op = {
    .name = "log_softmax",
    .family = "normalize",
    .formula = R"(y_i = \beta (x_i - m) - \ln \sum_j e^{\beta (x_j - m)})",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = "masked entries stay -inf with gradient 0; a row of -inf only: -inf, gradient 0; NaN or +inf in a row: NaN",
    .shape = like_input_along_axis,
    .forward =
        [](Run& r) {
          const auto& a = r.attr<MapAttributes>();
          along_axis<1>({r.in(0)}, r.out(), a.axis, [&]<class T>(const std::array<const T*, 1>& x, T* y, index_t rows, index_t n) {
            rows_kernels<T>().log_softmax(x[0], rows, n, static_cast<T>(a.inverse_temperature), y);
          });
        },
    .vjp =
        [](Vjp& b) {
          const auto& a = b.attr<MapAttributes>();
          const Tensor masked = is_negative_infinity(b.output());
          const Tensor g = where(masked, 0.0, b.grad());
          b.to(0, a.inverse_temperature * (g - exp(b.output()) * sum(g, {.axes = {a.axis}, .keep = true})));
        },
    .fused_vjp =
        [](Vjp& b) {
          const auto& a = b.attr<MapAttributes>();
          Tensor gx = Tensor::empty(b.input_shape(0), b.grad().dtype());
          along_axis<2>({b.output(), b.grad()}, gx, a.axis, [&]<class T>(const std::array<const T*, 2>& in, T* out, index_t rows, index_t n) {
            rows_kernels<T>().log_softmax_backward(in[0], in[1], rows, n, static_cast<T>(a.inverse_temperature), out);
          });
          b.to(0, gx);
        },
    .saves = save::output,
    .cases =
        [] {
          auto all = map_cases([](Inputs x) { return log_softmax(x[0]); }, [](Inputs x) { return log_softmax(x[0], {.axis = 0}); },
                               [](Inputs x) { return log_softmax(x[0], {.axis = 1}); }, -2, 2);
          all.push_back({"inverse temperature 3", {normal_input({3, 5})}, [](Inputs x) { return log_softmax(x[0], {.inverse_temperature = 3.0}); }});
          return all;
        },
};

const OpDef hardmax_op = {
    .name = "hardmax",
    .family = "normalize",
    .formula = R"(y_i = [x_i \ge m - \epsilon (1 + |m|)] / \#\{\dots\})",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = "the limit of softmax; uniform over ties within 1e-9 (f32: 1e-6) relative; a row of -inf only: zeros; NaN in a row: NaN",
    .gradient = GradientKind::zero,
    .gradient_note = "constant between its steps",
    .shape = like_input_along_axis,
    .forward =
        [](Run& r) {
          along_axis<1>({r.in(0)}, r.out(), r.attr<MapAttributes>().axis, [&]<class T>(const std::array<const T*, 1>& x, T* y, index_t rows, index_t n) {
            rows_kernels<T>().hardmax(x[0], rows, n, static_cast<T>(hardmax_tolerance(dtype_of<T>())), y);
          });
        },
    .cases =
        [] {
          auto all =
              map_cases([](Inputs x) { return hardmax(x[0]); }, [](Inputs x) { return hardmax(x[0], 0); }, [](Inputs x) { return hardmax(x[0], 1); }, -2, 2);
          all.push_back({"ties", {value_input({2, 3}, {1, 1, 0, 2, 5, 5})}, [](Inputs x) { return hardmax(x[0]); }, true});
          return all;
        },
};

const OpDef normalized_linear_op = {
    .name = "normalized_linear",
    .family = "normalize",
    .formula = R"(y_i = x_i / \sum_j x_j)",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = "a row that sums to zero: zero weights, gradient 0, and a counted event; NaN in a row: NaN",
    .shape = like_input_along_axis,
    .forward =
        [](Run& r) {
          along_axis<1>({r.in(0)}, r.out(), r.attr<MapAttributes>().axis, [&]<class T>(const std::array<const T*, 1>& x, T* y, index_t rows, index_t n) {
            const index_t zero_rows = rows_kernels<T>().normalize(x[0], rows, n, y);
            if (zero_rows > 0) count_event(Event::zero_weight_row, zero_rows);
          });
        },
    .vjp =
        [](Vjp& b) {
          const ReduceOptions along{.axes = {b.attr<MapAttributes>().axis}, .keep = true};
          const Tensor total = sum(b.input(0), along), zero = equal_to(total, 0.0);
          const Tensor y = b.output();
          b.to(0, where(zero, 0.0, (b.grad() - sum(b.grad() * y, along)) / where(zero, 1.0, total)));
        },
    .fused_vjp =
        [](Vjp& b) {
          Tensor gx = Tensor::empty(b.input_shape(0), b.grad().dtype());
          along_axis<3>({b.input(0), b.output(), b.grad()}, gx, b.attr<MapAttributes>().axis,
                        [&]<class T>(const std::array<const T*, 3>& in, T* out, index_t rows, index_t n) {
                          rows_kernels<T>().normalize_backward(in[0], in[1], in[2], rows, n, out);
                        });
          b.to(0, gx);
        },
    .composite =
        [](Run& r) {
          const Tensor& x = r.in(0);
          const Tensor total = sum(x, {.axes = {r.attr<MapAttributes>().axis}, .keep = true}), zero = equal_to(total, 0.0);
          return where(zero, 0.0, x / where(zero, 1.0, total));
        },
    .saves = save::input(0) | save::output,
    .cases =
        [] {
          auto all = map_cases([](Inputs x) { return normalized_linear(x[0]); }, [](Inputs x) { return normalized_linear(x[0], 0); },
                               [](Inputs x) { return normalized_linear(x[0], 1); }, 0.2, 2);
          all.push_back({"a zero row", {value_input({2, 3}, {0, 0, 0, 1, 2, 5})}, [](Inputs x) { return normalized_linear(x[0]); }, true});
          return all;
        },
};

Tensor apply_softmax(const OpDef& op, const Tensor& x, const MapOptions& options) {
  const define::MapScores scores = define::map_scores(op.name, x, options);
  return apply(op, {&scores.x}, MapAttributes{options.axis, scores.inverse_temperature});
}

}  // namespace

void define::like_input_along_axis(Run& r) {
  like_floating_input(r);
  (void)normalize_axis(r.attr<MapAttributes>().axis, r.in(0).rank(), r.name());
  require_positive(r.name(), "the inverse temperature", r.attr<MapAttributes>().inverse_temperature);
}

Tensor define::scaled_scores(const char* op, const Tensor& x, const Number& beta) {
  require_positive(op, "the inverse temperature", beta.value());
  if (!beta.is_tensor()) return beta.value() == 1 ? x : beta.value() * x;
  if (beta.tensor().rank() != 0) throw ShapeError(op, cat("the inverse temperature has shape ", beta.tensor().shape()), "give a number or a rank-0 tensor");
  const Tensor masked = is_negative_infinity(x);
  return where(masked, x, beta.tensor() * where(masked, 0.0, x));
}

define::MapScores define::map_scores(const char* op, const Tensor& x, const MapOptions& options) {
  const Number& beta = options.inverse_temperature;
  const Tensor& mask = options.mask;
  if (!mask.defined()) return beta.is_tensor() ? MapScores{scaled_scores(op, x, beta), 1} : MapScores{x, beta.value()};
  if (broadcast_shapes(mask.shape(), x.shape(), op) != x.shape())
    throw ShapeError(op, cat("the mask has shape ", mask.shape(), ", the scores ", x.shape()), "the mask must broadcast to the scores");
  if (mask.dtype() != DType::boolean) return {scaled_scores(op, x, beta) + mask, 1};
  return map_scores(op, where(mask, x, -std::numeric_limits<double>::infinity()), {.axis = options.axis, .inverse_temperature = beta});
}

double hardmax_tolerance(DType dtype) { return dtype == DType::f64 ? 1e-9 : 1e-6; }
Tensor softmax(const Tensor& x, const MapOptions& options) { return apply_softmax(softmax_op, x, options); }
Tensor log_softmax(const Tensor& x, const MapOptions& options) { return apply_softmax(log_softmax_op, x, options); }
Tensor hardmax(const Tensor& x, index_t axis) { return apply(hardmax_op, {&x}, MapAttributes{axis, 1}); }
Tensor normalized_linear(const Tensor& x, index_t axis) { return apply(normalized_linear_op, {&x}, MapAttributes{axis, 1}); }

std::span<const OpDef* const> normalize_ops() {
  static const OpDef* const all[] = {&softmax_op, &log_softmax_op, &hardmax_op, &normalized_linear_op};
  return all;
}

}  // namespace gradus
