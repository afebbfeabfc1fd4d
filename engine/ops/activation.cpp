// Activations: smooth gates with kernels of their own, and others composed of elementwise ops.
#include "engine/ops/activation.hpp"

#include <numbers>

#include "engine/ops/define.hpp"

namespace gradus {
namespace {

using define::Inputs;
using kernels::Binary;
using kernels::Unary;

constexpr double infinity = std::numeric_limits<double>::infinity();

// ---- parameters: a number is an attribute, a tensor a second input ---------------------------------------------------

void like_input_with_parameter(Run& r) {
  define::like_floating_input(r);
  if (r.inputs() == 1) return;
  define::require_same_dtype(r, 0, 1);
  if (r.in(1).rank() != 0) throw ShapeError(r.name(), cat("the parameter has shape ", r.in(1).shape()), "give a number or a rank-0 tensor");
}

Tensor parameter(const Run& r) { return r.inputs() == 1 ? scalar_like(r.in(0), r.attr<double>()) : r.in(1); }

Tensor apply_with(const OpDef& op, const Tensor& x, const Number& parameter) {
  return parameter.is_tensor() ? apply(op, {&x, &parameter.tensor()}, 0.0) : apply(op, {&x}, parameter.value());
}

// ---- definitions -----------------------------------------------------------------------------------------------------

constexpr OpDef activation(const char* name, const char* formula, const char* law, void (*shape)(Run&), Tensor (*composite)(Run&),
                           std::vector<OpCase> (*cases)()) {
  return {.name = name,
          .family = "elementwise",
          .formula = formula,
          .shapes = "(...) -> (...)",
          .law = law,
          .shape = shape,
          .composite = composite,
          .cases = cases};
}

// An activation x gate(x), which has kernels for itself and its gradient.
template <kernels::Unary kernel, kernels::Binary gradient>
constexpr OpDef gated(const char* name, const char* formula, void (*vjp)(Vjp&), Tensor (*composite)(Run&), std::vector<OpCase> (*cases)()) {
  return {.name = name,
          .family = "elementwise",
          .formula = formula,
          .shapes = "(...) -> (...)",
          .law = "0 with gradient 0 far below, x with gradient 1 far above, +-inf included",
          .shape = define::like_floating_input,
          .forward = [](Run& r) { compute::unary(kernel, r.in(0), r.out()); },
          .vjp = vjp,
          .fused_vjp = [](Vjp& b) { b.to(0, define::gradient_by<gradient>(b.input(0), b.grad())); },
          .composite = composite,
          .saves = save::input(0),
          .cases = cases};
}

template <Tensor (*f)(const Tensor&)>
std::vector<OpCase> cases_of() {
  const auto call = [](Inputs x) { return f(x[0]); };
  return {{"scalar", {normal_input({})}, call},
          {"vector of 67", {uniform_input({67}, -4, 4)}, call},
          {"far out", {value_input({6}, {-2000, -300, -30, 30, 300, 2000})}, call},
          {"infinite", {value_input({2}, {-infinity, infinity})}, call, true},
          {"empty", {normal_input({0, 3})}, call}};
}

template <Tensor (*f)(const Tensor&, const Number&)>
Tensor with_parameter(const Tensor& x) {
  return f(x, 0.7);
}
template <Tensor (*f)(const Tensor&, const Number&)>
std::vector<OpCase> cases_with_parameter() {
  auto cases = cases_of<with_parameter<f>>();
  cases.push_back({"parameter left out", {normal_input({3, 4})}, [](Inputs x) { return f(x[0], 1.0); }});
  cases.push_back({"parameter a tensor", {normal_input({3, 5}), uniform_input({}, 0.5, 2)}, [](Inputs x) { return f(x[0], x[1]); }});
  return cases;
}

// f for |x| <= bound and `beyond` further out, where f has become that to the last bit. It keeps inf * 0 out.
Tensor unless_beyond(double bound, const Tensor& x, Tensor (*f)(const Tensor&), Tensor (*beyond)(const Tensor&)) {
  const Tensor far = greater(abs(x), bound);
  return where(far, beyond(x), f(where(far, 0.0, x)));
}
Tensor one_above_zero(const Tensor& x) { return cast(greater(x, 0.0), x.dtype()); }

// The composite y = x gate(x) and its derivative, both in differentiable ops.
template <int bound, Tensor (*f)(const Tensor&)>
Tensor gate_composite(Run& r) {
  return unless_beyond(bound, r.in(0), f, relu);
}
template <int bound, Tensor (*slope)(const Tensor&)>
void gate_vjp(Vjp& b) {
  b.to(0, b.grad() * unless_beyond(bound, b.input(0), slope, one_above_zero));
}

const OpDef leaky_relu_op = activation(
    "leaky_relu", R"(y = \max(0, x) + s \min(0, x))", "gradient 0 at 0; NaN stays NaN", like_input_with_parameter,
    [](Run& r) { return relu(r.in(0)) - parameter(r) * relu(-r.in(0)); }, cases_with_parameter<leaky_relu>);

const OpDef elu_op = activation(
    "elu", R"(y = x \text{ if } x > 0, \text{ else } \alpha (e^x - 1))", "at 0 the gradient is alpha, that of the left side; NaN stays NaN",
    like_input_with_parameter,
    [](Run& r) {
      const Tensor& x = r.in(0);
      const Tensor positive = greater(x, 0.0);
      return where(positive, x, parameter(r) * expm1(where(positive, 0.0, x)));
    },
    cases_with_parameter<elu>);

Tensor normal_distribution(const Tensor& x) { return 0.5 * (1.0 + erf(x * (1 / std::numbers::sqrt2))); }
Tensor gelu_near(const Tensor& x) { return x * normal_distribution(x); }
Tensor gelu_slope(const Tensor& x) {
  constexpr double peak = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return normal_distribution(x) + x * (peak * exp(-0.5 * square(x)));
}
const OpDef gelu_op = gated<Unary::gelu, Binary::gelu_gradient>("gelu", R"(y = \frac x2 \left(1 + \mathrm{erf}(x / \sqrt 2)\right))", gate_vjp<40, gelu_slope>,
                                                                gate_composite<40, gelu_near>, cases_of<gelu>);

// (1 + tanh u) / 2 = sigmoid(2 u), which loses no digits below.
constexpr double twice_root = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
Tensor gelu_tanh_gate(const Tensor& x) { return sigmoid(twice_root * (x * (1.0 + 0.044715 * square(x)))); }
Tensor gelu_tanh_near(const Tensor& x) { return x * gelu_tanh_gate(x); }
Tensor gelu_tanh_slope(const Tensor& x) {
  const Tensor s = gelu_tanh_gate(x);
  return s + x * s * (1.0 - s) * (twice_root * (1.0 + 3 * 0.044715 * square(x)));
}
const OpDef gelu_tanh_op =
    gated<Unary::gelu_tanh, Binary::gelu_tanh_gradient>("gelu_tanh", R"(y = \frac x2 \left(1 + \tanh(\sqrt{2 / \pi} (x + 0.044715 x^3))\right))",
                                                        gate_vjp<40, gelu_tanh_slope>, gate_composite<40, gelu_tanh_near>, cases_of<gelu_tanh>);

Tensor silu_near(const Tensor& x) { return x * sigmoid(x); }
Tensor silu_slope(const Tensor& x) {
  const Tensor s = sigmoid(x);
  return s + x * s * (1.0 - s);
}
const OpDef silu_op =
    gated<Unary::silu, Binary::silu_gradient>("silu", R"(y = x / (1 + e^{-x}))", gate_vjp<1000, silu_slope>, gate_composite<1000, silu_near>, cases_of<silu>);

const OpDef softplus_op = activation(
    "softplus", R"(y = \frac1\beta \ln(1 + e^{\beta x}))", "0 with gradient 0 far below, x with gradient 1 far above; beta must be finite and > 0",
    [](Run& r) {
      like_input_with_parameter(r);
      define::require_positive("softplus", "beta", r.inputs() == 1 ? r.attr<double>() : r.in(1).item());
    },
    [](Run& r) {
      const Tensor beta = parameter(r), z = beta * r.in(0), positive = greater(z, 0.0);
      // max(z, 0) + ln(1 + e^{-|z|}), without abs and its kink.
      return (where(positive, z, 0.0) + log1p(exp(where(positive, -z, z)))) / beta;
    },
    cases_with_parameter<softplus>);

Tensor clamp_both(const Tensor& x) { return clamp(x, -0.8, 1.1); }

struct Interval {
  double low, high;
};

const OpDef clamp_op = activation(
    "clamp", R"(y = \min(\max(x, l), h))", "gradient 0 outside and at the edges; NaN stays NaN; l > h is an error",
    [](Run& r) {
      define::like_floating_input(r);
      const auto& a = r.attr<Interval>();
      if (!(a.low <= a.high)) throw ValueError("clamp", cat("from ", a.low, " to ", a.high), "low must not exceed high; an infinite one does not bound");
    },
    [](Run& r) {
      const auto& a = r.attr<Interval>();
      const Tensor& x = r.in(0);
      return where(less_equal(x, a.low), a.low, where(greater_equal(x, a.high), a.high, x));
    },
    [] {
      auto cases = cases_of<clamp_both>();
      cases.push_back({"from below", {normal_input({9})}, [](Inputs x) { return clamp(x[0], 0.2, infinity); }});
      cases.push_back({"from above", {normal_input({9})}, [](Inputs x) { return clamp(x[0], -infinity, -0.2); }});
      cases.push_back({"at the edges", {value_input({3}, {-0.5, 0, 0.5})}, [](Inputs x) { return clamp(x[0], -0.5, 0.5); }, true});
      return cases;
    });

}  // namespace

Tensor leaky_relu(const Tensor& x, const Number& slope) { return apply_with(leaky_relu_op, x, slope); }
Tensor elu(const Tensor& x, const Number& alpha) { return apply_with(elu_op, x, alpha); }
Tensor gelu(const Tensor& x) { return apply(gelu_op, {&x}); }
Tensor gelu_tanh(const Tensor& x) { return apply(gelu_tanh_op, {&x}); }
Tensor silu(const Tensor& x) { return apply(silu_op, {&x}); }
Tensor softplus(const Tensor& x, const Number& beta) { return apply_with(softplus_op, x, beta); }
Tensor clamp(const Tensor& x, double low, double high) { return apply(clamp_op, {&x}, Interval{low, high}); }

std::span<const OpDef* const> activation_ops() {
  static const OpDef* const all[] = {&leaky_relu_op, &elu_op, &gelu_op, &gelu_tanh_op, &silu_op, &softplus_op, &clamp_op};
  return all;
}

}  // namespace gradus
