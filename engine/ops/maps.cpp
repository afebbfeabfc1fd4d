// Sparse maps from scores to weights: sparsemax, entmax and normmax.
#include "engine/ops/maps.hpp"

#include <algorithm>
#include <cmath>

#include "engine/ops/map_rows.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/ops/simplex_rows.hpp"

namespace gradus {
namespace {

using define::along_axis;
using define::Candidates;
using define::Inputs;
using define::like_input_along_axis;
using define::MapAttributes;
using define::Numbers;
using define::power;

constexpr double infinity = std::numeric_limits<double>::infinity();

struct AlphaAttributes {
  MapAttributes map;  // first: the shared shape rule reads it
  double alpha;
};

void like_input_with_alpha(Run& r) {
  like_input_along_axis(r);
  const double alpha = r.attr<AlphaAttributes>().alpha;
  if (!(alpha > 1) || alpha == infinity) throw ValueError(r.name(), cat("alpha is ", alpha), "it must be finite and > 1; softmax is the limit of entmax at 1");
}

template <class F>
void run_forward(Run& r, const MapAttributes& map, double factor, F&& weigh) {
  along_axis<1>({r.in(0)}, r.out(), map.axis,
                [&]<class T>(const std::array<const T*, 1>& x, T* y, index_t rows, index_t n) { define::sparse_rows(x[0], y, rows, n, factor, weigh); });
}

// ---- backward: functions of the weights alone, so that a recorded one differentiates through them --------------------------------

Tensor one_where(const Tensor& zero, const Tensor& x) { return where(zero, 1.0, x); }

// Of maps whose Jacobian is diag(s) - s s^T / sum(s). Off the support s is 0 and nothing that arrives is read.
void vjp_of_slopes(Vjp& b, const MapAttributes& map, const Tensor& off, const Tensor& slopes) {
  const ReduceOptions along{.axes = {map.axis}, .keep = true};
  const Tensor s = where(off, 0.0, slopes), g = where(off, 0.0, b.grad());
  const Tensor total = sum(s, along);
  b.to(0, map.inverse_temperature * (s * (g - sum(s * g, along) / one_where(equal_to(total, 0.0), total))));
}

// ||y||_alpha (||y||_alpha / y_i)^{alpha - 2} / (alpha - 1) is the factor of the paper, ||y||^{alpha - 1} y_i^{2 - alpha} / (alpha - 1),
// without the overflow of its powers.
void normmax_vjp(Vjp& b) {
  const auto& [map, alpha] = b.attr<AlphaAttributes>();
  const ReduceOptions along{.axes = {map.axis}, .keep = true};
  const Tensor y = b.output(), off = equal_to(y, 0.0);
  if (y.numel() == 0) {
    b.to(0, b.grad());
    return;
  }
  const Tensor top = max(y, along).detached(), empty = equal_to(top, 0.0);
  const Tensor largest = one_where(empty, top);
  const Tensor norm = largest * pow(one_where(empty, sum(pow(y / largest, alpha), along)), 1 / alpha);
  const Tensor slopes = where(off, 0.0, norm * pow(norm / one_where(off, y), alpha - 2) / (alpha - 1));
  const Tensor g = where(off, 0.0, b.grad());
  const Tensor w = slopes * (g - sum(y * g, along));
  b.to(0, map.inverse_temperature * (w - y * sum(w, along)));
}

// Calls f(y, slopes, g, n) on rows in double; f turns g into the gradient before the temperature, on the support.
template <class F>
void run_backward(Vjp& b, const MapAttributes& map, F&& f) {
  const Tensor y = b.output();
  Tensor gx = Tensor::empty(y.shape(), y.dtype());
  along_axis<2>({y, b.grad()}, gx, map.axis, [&]<class T>(const std::array<const T*, 2>& in, T* out, index_t rows, index_t n) {
    Numbers weights(static_cast<std::size_t>(n)), slopes(weights), g(weights);
    for (index_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const auto at = static_cast<std::size_t>(row * n) + i;
        weights[i] = static_cast<double>(in[0][at]);
        g[i] = static_cast<double>(in[1][at]);
      }
      f(weights.data(), slopes.data(), g.data(), n);
      for (std::size_t i = 0; i < weights.size(); ++i)
        out[static_cast<std::size_t>(row * n) + i] = weights[i] == 0 ? T{0} : static_cast<T>(map.inverse_temperature * g[i]);
    }
  });
  b.to(0, gx);
}

// The same as vjp_of_slopes for one row.
void gradient_of_slopes(const double* y, const double* slopes, double* g, index_t n) {
  double total = 0, mean = 0;
  for (index_t i = 0; i < n; ++i) {
    if (y[i] == 0) continue;
    total += slopes[i];
    mean += slopes[i] * g[i];
  }
  for (index_t i = 0; i < n; ++i)
    if (y[i] != 0) g[i] = slopes[i] * (g[i] - mean / total);
}

// The same as normmax_vjp for one row.
void normmax_gradient(double alpha, const double* y, double* slopes, double* g, index_t n) {
  const double top = *std::max_element(y, y + n);
  for (index_t i = 0; i < n; ++i) slopes[i] = y[i] / top;
  power(slopes, alpha, slopes, n);
  double norm = 0, mean = 0, total = 0;
  for (index_t i = 0; i < n; ++i) {
    if (y[i] == 0) continue;
    norm += slopes[i];
    mean += y[i] * g[i];
  }
  norm = top * power(norm, 1 / alpha);
  for (index_t i = 0; i < n; ++i) slopes[i] = norm / y[i];
  power(slopes, alpha - 2, slopes, n);
  for (index_t i = 0; i < n; ++i) {
    if (y[i] == 0) continue;
    g[i] = norm * slopes[i] / (alpha - 1) * (g[i] - mean);
    total += g[i];
  }
  for (index_t i = 0; i < n; ++i) g[i] -= y[i] * total;
}

// ---- definitions -----------------------------------------------------------------------------------------------------------------

constexpr const char* law = "-inf weighs 0; a row of -inf only: zeros, gradient 0; NaN or +inf in a row: NaN; gradient 0 off the support";

// Finite differences need rows that change their support nowhere near: normal ones of these sizes do not.
template <Tensor (*f)(const Tensor&, const MapOptions&)>
std::vector<OpCase> cases_of() {
  return {{"1 x 1", {normal_input({1, 1})}, [](Inputs x) { return f(x[0], {}); }},
          {"3 x 7", {normal_input({3, 7})}, [](Inputs x) { return f(x[0], {}); }},
          {"first axis", {normal_input({5, 3})}, [](Inputs x) { return f(x[0], {.axis = 0}); }},
          {"middle", {normal_input({2, 4, 3})}, [](Inputs x) { return f(x[0], {.axis = 1}); }},
          {"inverse temperature 0.3", {normal_input({2, 9})}, [](Inputs x) { return f(x[0], {.inverse_temperature = 0.3}); }},
          {"inverse temperature a tensor", {normal_input({3, 5}), uniform_input({}, 0.5, 2)}, [](Inputs x) { return f(x[0], {.inverse_temperature = x[1]}); }},
          {"bool mask", {normal_input({3, 5}), boolean_input({5})}, [](Inputs x) { return f(x[0], {.mask = x[1]}); }},
          {"additive mask", {normal_input({3, 5}), normal_input({3, 1})}, [](Inputs x) { return f(x[0], {.inverse_temperature = 0.5, .mask = x[1]}); }},
          {"masked rows", {value_input({2, 3}, {-infinity, -infinity, -infinity, 0.5, -infinity, 0.2})}, [](Inputs x) { return f(x[0], {}); }, true},
          {"empty", {normal_input({0, 4})}, [](Inputs x) { return f(x[0], {}); }},
          {"empty axis", {normal_input({4, 0})}, [](Inputs x) { return f(x[0], {}); }}};
}
template <Tensor (*f)(const Tensor&, double, const MapOptions&), int percent>
Tensor with_alpha(const Tensor& x, const MapOptions& options) {
  return f(x, percent / 100.0, options);
}

Tensor normmax_in_the_limit(const Tensor& x, const MapOptions& options) { return normmax(x, infinity, options); }

const OpDef sparsemax_op = {
    .name = "sparsemax",
    .family = "normalize",
    .formula = R"(y_i = [\beta x_i - \tau]_+,\ \sum_i y_i = 1)",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = law,
    .shape = like_input_along_axis,
    .forward = [](Run& r) { run_forward(r, r.attr<MapAttributes>(), r.attr<MapAttributes>().inverse_temperature, define::sparsemax_weights); },
    .vjp =
        [](Vjp& b) {
          const Tensor y = b.output(), off = equal_to(y, 0.0);
          vjp_of_slopes(b, b.attr<MapAttributes>(), off, y / one_where(off, y));  // 1, or NaN in a row of NaN
        },
    .fused_vjp =
        [](Vjp& b) {
          run_backward(b, b.attr<MapAttributes>(), [](const double* y, double* slopes, double* g, index_t n) {
            for (index_t i = 0; i < n; ++i) slopes[i] = y[i] / y[i];
            gradient_of_slopes(y, slopes, g, n);
          });
        },
    .saves = save::output,
    .cases = cases_of<sparsemax>,
};

const OpDef entmax_op = {
    .name = "entmax",
    .family = "normalize",
    .formula = R"(y_i = [(\alpha - 1) \beta x_i - \tau]_+^{1 / (\alpha - 1)},\ \sum_i y_i = 1)",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = law,
    .shape = like_input_with_alpha,
    .forward =
        [](Run& r) {
          const auto& [map, alpha] = r.attr<AlphaAttributes>();
          run_forward(r, map, (alpha - 1) * map.inverse_temperature, [exponent = alpha](Candidates& c) { define::entmax_weights(c, exponent); });
        },
    .vjp =
        [](Vjp& b) {
          const auto& [map, alpha] = b.attr<AlphaAttributes>();
          const Tensor y = b.output(), off = equal_to(y, 0.0);
          vjp_of_slopes(b, map, off, pow(one_where(off, y), 2 - alpha));
        },
    .fused_vjp =
        [](Vjp& b) {
          const auto& [map, alpha] = b.attr<AlphaAttributes>();
          run_backward(b, map, [exponent = 2 - alpha](const double* y, double* slopes, double* g, index_t n) {
            power(y, exponent, slopes, n);
            gradient_of_slopes(y, slopes, g, n);
          });
        },
    .saves = save::output,
    .cases =
        [] {
          auto all = cases_of<with_alpha<entmax, 150>>();
          all.push_back({"alpha 1.2", {normal_input({3, 6})}, [](Inputs x) { return entmax(x[0], 1.2); }});
          all.push_back({"alpha 3", {normal_input({3, 6})}, [](Inputs x) { return entmax(x[0], 3); }});
          return all;
        },
};

const OpDef normmax_op = {
    .name = "normmax",
    .family = "normalize",
    .formula = R"(y = \arg\max_{p \in \Delta} \langle p, \beta x \rangle - \|p\|_\alpha)",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = law,
    .shape = like_input_with_alpha,
    .forward =
        [](Run& r) {
          const auto& [map, alpha] = r.attr<AlphaAttributes>();
          run_forward(r, map, map.inverse_temperature, [exponent = alpha](Candidates& c) { define::normmax_weights(c, exponent); });
        },
    .vjp = normmax_vjp,
    .fused_vjp =
        [](Vjp& b) {
          const auto& [map, alpha] = b.attr<AlphaAttributes>();
          run_backward(b, map, [exponent = alpha](const double* y, double* slopes, double* g, index_t n) { normmax_gradient(exponent, y, slopes, g, n); });
        },
    .saves = save::output,
    .cases =
        [] {
          auto all = cases_of<with_alpha<normmax, 200>>();
          all.push_back({"alpha 1.5", {normal_input({3, 6})}, [](Inputs x) { return normmax(x[0], 1.5); }});
          // Inside the support, where its slope is moderate: near the edge it grows without bound.
          all.push_back({"alpha 5", {value_input({2, 4}, {0, 0.05, -0.04, -2, 0.03, -2, 0, 0.02})}, [](Inputs x) { return normmax(x[0], 5); }});
          return all;
        },
};

const OpDef normmax_infinity_op = {
    .name = "normmax_infinity",
    .family = "normalize",
    .formula = R"(y_i = [\beta x_i > \tau] / \#\{\dots\},\ \sum_i [\beta x_i - \tau]_+ = 1)",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = "normmax in the limit: uniform over the support of sparsemax; a row of -inf only: zeros; NaN or +inf in a row: NaN",
    .gradient = GradientKind::zero,
    .gradient_note = "constant between its steps",
    .shape = like_input_along_axis,
    .forward = [](Run& r) { run_forward(r, r.attr<MapAttributes>(), r.attr<MapAttributes>().inverse_temperature, define::uniform_weights); },
    .cases = cases_of<normmax_in_the_limit>,
};

template <class... Alpha>
Tensor apply_along(const OpDef& op, const Tensor& x, const MapOptions& options, Alpha... alpha) {
  const define::MapScores scores = define::map_scores(op.name, x, options);
  const MapAttributes map{options.axis, scores.inverse_temperature};
  if constexpr (sizeof...(Alpha) == 0) return apply(op, {&scores.x}, map);
  else return apply(op, {&scores.x}, AlphaAttributes{map, alpha...});
}

}  // namespace

Tensor sparsemax(const Tensor& x, const MapOptions& options) { return apply_along(sparsemax_op, x, options); }
Tensor entmax(const Tensor& x, double alpha, const MapOptions& options) {
  return alpha == 2 ? sparsemax(x, options) : apply_along(entmax_op, x, options, alpha);
}
Tensor normmax(const Tensor& x, double alpha, const MapOptions& options) {
  return alpha == infinity ? apply_along(normmax_infinity_op, x, options) : apply_along(normmax_op, x, options, alpha);
}

std::span<const OpDef* const> sparse_map_ops() {
  static const OpDef* const all[] = {&sparsemax_op, &entmax_op, &normmax_op, &normmax_infinity_op};
  return all;
}

}  // namespace gradus
