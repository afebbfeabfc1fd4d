// Elementwise functions of one tensor.
#include <cmath>
#include <numbers>

#include "engine/ops/define.hpp"

namespace gradus {
namespace {

using define::Inputs;
using define::unless_zero;
using kernels::Binary;
using kernels::Unary;

template <Unary kind>
void run_kernel(Run& r) {
  compute::unary(kind, r.in(0), r.out());
}

template <Tensor (*f)(const Tensor&)>
std::vector<OpCase> cases_on(double low, double high) {
  const auto call = [](Inputs x) { return f(x[0]); };
  return {{"scalar", {uniform_input({}, low, high)}, call},
          {"vector of 67", {uniform_input({67}, low, high)}, call},
          {"3 x 4 x 5", {uniform_input({3, 4, 5}, low, high)}, call},
          {"empty", {uniform_input({0, 3}, low, high)}, call}};
}

template <Unary kind, Tensor (*f)(const Tensor&)>
constexpr OpDef differentiable(const char* name, const char* formula, const char* law, unsigned saves, void (*vjp)(Vjp&), std::vector<OpCase> (*cases)(),
                               void (*fused_vjp)(Vjp&) = nullptr) {
  return {.name = name,
          .family = "elementwise",
          .formula = formula,
          .shapes = "(...) -> (...)",
          .law = law,
          .shape = define::like_floating_input,
          .forward = run_kernel<kind>,
          .vjp = vjp,
          .fused_vjp = fused_vjp,
          .saves = saves,
          .cases = cases};
}

template <Unary kind, Tensor (*f)(const Tensor&)>
constexpr OpDef step_function(const char* name, const char* formula, const char* law) {
  return {.name = name,
          .family = "elementwise",
          .formula = formula,
          .shapes = "(...) -> (...)",
          .law = law,
          .gradient = GradientKind::zero,
          .gradient_note = "constant between its steps",
          .shape = define::like_floating_input,
          .forward = run_kernel<kind>,
          .cases = [] { return cases_on<f>(-3.3, 3.4); }};
}

constexpr unsigned of_input = save::input(0), of_output = save::output;

const OpDef neg_op = differentiable<Unary::neg, neg>(
    "neg", "y = -x", "", save::nothing, [](Vjp& b) { b.to(0, -b.grad()); }, [] { return cases_on<neg>(-2, 2); });

const OpDef abs_op = differentiable<Unary::abs, abs>(
    "abs", "y = |x|", "gradient 0 at 0", of_input, [](Vjp& b) { b.to(0, b.grad() * sign(b.input(0))); },
    [] {
      auto all = cases_on<abs>(0.1, 2);
      all.push_back({"negative", {uniform_input({4}, -2, -0.1)}, [](Inputs x) { return abs(x[0]); }});
      return all;
    });

const OpDef reciprocal_op = differentiable<Unary::reciprocal, reciprocal>(
    "reciprocal", "y = 1 / x", "no gradient arriving sends none, even at 0", of_output,
    [](Vjp& b) { b.to(0, unless_zero(b.grad(), -b.grad() * square(b.output()))); }, [] { return cases_on<reciprocal>(0.5, 2); });

const OpDef square_op = differentiable<Unary::square, square>(
    "square", "y = x^2", "", of_input, [](Vjp& b) { b.to(0, b.grad() * (2.0 * b.input(0))); }, [] { return cases_on<square>(-2, 2); });

const OpDef sqrt_op = differentiable<Unary::sqrt, sqrt>(
    "sqrt", R"(y = \sqrt{x})", "NaN below 0; no gradient arriving sends none, even at 0", of_output,
    [](Vjp& b) { b.to(0, unless_zero(b.grad(), 0.5 * b.grad() / b.output())); }, [] { return cases_on<sqrt>(0.2, 3); });

const OpDef rsqrt_op = differentiable<Unary::rsqrt, rsqrt>(
    "rsqrt", R"(y = 1 / \sqrt{x})", "inf at 0; no gradient arriving sends none", of_output,
    [](Vjp& b) { b.to(0, unless_zero(b.grad(), -0.5 * b.grad() * (b.output() * square(b.output())))); }, [] { return cases_on<rsqrt>(0.3, 3); });

const OpDef exp_op = differentiable<Unary::exp, exp>(
    "exp", "y = e^x", "denormal results are kept", of_output, [](Vjp& b) { b.to(0, b.grad() * b.output()); }, [] { return cases_on<exp>(-2, 2); });

const OpDef expm1_op = differentiable<Unary::expm1, expm1>(
    "expm1", "y = e^x - 1", "accurate near 0", of_output, [](Vjp& b) { b.to(0, b.grad() * (b.output() + 1.0)); }, [] { return cases_on<expm1>(-2, 2); });

const OpDef log_op = differentiable<Unary::log, log>(
    "log", R"(y = \ln x)", "-inf at 0, NaN below; no gradient arriving sends none", of_input,
    [](Vjp& b) { b.to(0, unless_zero(b.grad(), b.grad() / b.input(0))); }, [] { return cases_on<log>(0.3, 4); });

const OpDef log1p_op = differentiable<Unary::log1p, log1p>(
    "log1p", R"(y = \ln(1 + x))", "accurate near 0; -inf at -1, NaN below", of_input,
    [](Vjp& b) { b.to(0, unless_zero(b.grad(), b.grad() / (b.input(0) + 1.0))); }, [] { return cases_on<log1p>(-0.5, 3); });

const OpDef sin_op = differentiable<Unary::sin, sin>(
    "sin", R"(y = \sin x)", "", of_input, [](Vjp& b) { b.to(0, b.grad() * cos(b.input(0))); }, [] { return cases_on<sin>(-4, 4); });

const OpDef cos_op = differentiable<Unary::cos, cos>(
    "cos", R"(y = \cos x)", "", of_input, [](Vjp& b) { b.to(0, -b.grad() * sin(b.input(0))); }, [] { return cases_on<cos>(-4, 4); });

const OpDef tanh_op = differentiable<Unary::tanh, tanh>(
    "tanh", R"(y = \tanh x)", "+-1 with gradient 0 far out", of_output, [](Vjp& b) { b.to(0, b.grad() * (1.0 - square(b.output()))); },
    [] { return cases_on<tanh>(-2, 2); }, [](Vjp& b) { b.to(0, define::gradient_by<Binary::tanh_gradient>(b.output(), b.grad())); });

const OpDef sigmoid_op = differentiable<Unary::sigmoid, sigmoid>(
    "sigmoid", R"(y = 1 / (1 + e^{-x}))", "0 and 1 with gradient 0 far out", of_output,
    [](Vjp& b) {
      const Tensor y = b.output();
      b.to(0, b.grad() * (y * (1.0 - y)));
    },
    [] { return cases_on<sigmoid>(-3, 3); }, [](Vjp& b) { b.to(0, define::gradient_by<Binary::sigmoid_gradient>(b.output(), b.grad())); });

const OpDef erf_op = differentiable<Unary::erf, erf>(
    "erf", R"(y = \frac{2}{\sqrt\pi} \int_0^x e^{-t^2} dt)", "", of_input,
    [](Vjp& b) { b.to(0, b.grad() * (2.0 * std::numbers::inv_sqrtpi * exp(-square(b.input(0))))); }, [] { return cases_on<erf>(-2, 2); });

const OpDef relu_op = differentiable<Unary::relu, relu>(
    "relu", R"(y = \max(0, x))", "gradient 0 at 0; NaN stays NaN", of_input, [](Vjp& b) { b.to(0, where(greater(b.input(0), 0.0), b.grad(), 0.0)); },
    [] {
      auto all = cases_on<relu>(0.1, 2);
      all.push_back({"negative", {uniform_input({4}, -2, -0.1)}, [](Inputs x) { return relu(x[0]); }});
      all.push_back({"at 0", {value_input({4}, {-1, 0, -0.0, 2})}, [](Inputs x) { return relu(x[0]); }, true});
      return all;
    },
    [](Vjp& b) { b.to(0, define::gradient_by<Binary::relu_gradient>(b.input(0), b.grad())); });

const OpDef rectified_quadratic_op = differentiable<Unary::rectified_quadratic, rectified_quadratic>(
    "rectified_quadratic", R"(y = \max(0, x)^2)", "x^2 = y(x) + y(-x); gradient 0 at 0", of_input, [](Vjp& b) { b.to(0, b.grad() * (2.0 * relu(b.input(0)))); },
    [] {
      auto all = cases_on<rectified_quadratic>(0.1, 2);
      all.push_back({"negative", {uniform_input({4}, -2, -0.1)}, [](Inputs x) { return rectified_quadratic(x[0]); }});
      return all;
    });

const OpDef sign_op = step_function<Unary::sign, sign>("sign", R"(y = x / |x|)", "0 at 0");
const OpDef floor_op = step_function<Unary::floor, floor>("floor", R"(y = \lfloor x \rfloor)", "");
const OpDef ceil_op = step_function<Unary::ceil, ceil>("ceil", R"(y = \lceil x \rceil)", "");
const OpDef round_op = step_function<Unary::round, round>("round", R"(y = \lfloor x \rceil)", "halves to even");

const OpDef cast_op = {
    .name = "cast",
    .family = "elementwise",
    .formula = R"(y = \mathrm{dtype}(x))",
    .shapes = "(...) -> (...)",
    .dtypes = "f32 f64 i64 bool",
    .law = "to i64 truncates; NaN or a number outside int64 is an error; a bool is x != 0",
    .gradient_note = "between floating dtypes; none to i64 and bool",
    .shape = [](Run& r) { r.declare(r.in(0).shape(), r.attr<DType>()); },
    .forward = [](Run& r) { compute::cast(r.in(0), r.out()); },
    .vjp = [](Vjp& b) { b.to(0, cast(b.grad(), b.input_dtype(0))); },
    .cases =
        [] {
          return std::vector<OpCase>{{"to f64", {normal_input({3, 5})}, [](Inputs x) { return cast(x[0], DType::f64); }},
                                     {"from integers", {integer_input({7}, 9)}, [](Inputs x) { return cast(x[0], DType::f64); }},
                                     {"empty", {normal_input({0})}, [](Inputs x) { return cast(x[0], DType::f64); }}};
        },
};

const OpDef stop_gradient_op = {
    .name = "stop_gradient",
    .family = "control",
    .formula = "y = x",
    .shapes = "(...) -> (...)",
    .law = "x itself, as a constant",
    .gradient = GradientKind::zero,
    .gradient_note = "stopped on purpose",
    .shape = define::like_floating_input,
    .forward = [](Run& r) { r.out() = r.in(0).detached(); },
    .is_view = true,
    .cases = [] { return cases_on<stop_gradient>(-2, 2); },
};

}  // namespace

Tensor neg(const Tensor& x) { return apply(neg_op, {&x}); }
Tensor abs(const Tensor& x) { return apply(abs_op, {&x}); }
Tensor sign(const Tensor& x) { return apply(sign_op, {&x}); }
Tensor reciprocal(const Tensor& x) { return apply(reciprocal_op, {&x}); }
Tensor square(const Tensor& x) { return apply(square_op, {&x}); }
Tensor sqrt(const Tensor& x) { return apply(sqrt_op, {&x}); }
Tensor rsqrt(const Tensor& x) { return apply(rsqrt_op, {&x}); }
Tensor exp(const Tensor& x) { return apply(exp_op, {&x}); }
Tensor expm1(const Tensor& x) { return apply(expm1_op, {&x}); }
Tensor log(const Tensor& x) { return apply(log_op, {&x}); }
Tensor log1p(const Tensor& x) { return apply(log1p_op, {&x}); }
Tensor sin(const Tensor& x) { return apply(sin_op, {&x}); }
Tensor cos(const Tensor& x) { return apply(cos_op, {&x}); }
Tensor tanh(const Tensor& x) { return apply(tanh_op, {&x}); }
Tensor sigmoid(const Tensor& x) { return apply(sigmoid_op, {&x}); }
Tensor erf(const Tensor& x) { return apply(erf_op, {&x}); }
Tensor relu(const Tensor& x) { return apply(relu_op, {&x}); }
Tensor rectified_quadratic(const Tensor& x) { return apply(rectified_quadratic_op, {&x}); }
Tensor floor(const Tensor& x) { return apply(floor_op, {&x}); }
Tensor ceil(const Tensor& x) { return apply(ceil_op, {&x}); }
Tensor round(const Tensor& x) { return apply(round_op, {&x}); }
Tensor cast(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : apply(cast_op, {&x}, dtype); }
Tensor stop_gradient(const Tensor& x) { return apply(stop_gradient_op, {&x}); }
Tensor scalar_like(const Tensor& x, double value) { return Tensor::scalar(value, x.dtype()); }

std::span<const OpDef* const> unary_ops() {
  static const OpDef* const all[] = {&neg_op,   &abs_op,  &sign_op,    &reciprocal_op, &square_op,       &sqrt_op,
                                     &rsqrt_op, &exp_op,  &expm1_op,   &log_op,        &log1p_op,        &sin_op,
                                     &cos_op,   &tanh_op, &sigmoid_op, &erf_op,        &relu_op,         &rectified_quadratic_op,
                                     &floor_op, &ceil_op, &round_op,   &cast_op,       &stop_gradient_op};
  return all;
}

}  // namespace gradus
