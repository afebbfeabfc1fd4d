#include <cmath>

#include "engine/ops/activation.hpp"
#include "engine/ops/layout.hpp"
#include "tests/onnx/operators.hpp"

namespace gradus::onnx {
namespace {

/// The second operand. Before operator set 7 broadcasting was switched on by an attribute and could align b with a's axes from one on.
Tensor second(Call& c) {
  const Tensor &a = c.in(0), &b = c.in(1);
  if (c.opset() >= 7) return b;
  c.ignore("broadcast");
  Shape shape = b.shape();
  if (c.has("axis"))
    for (index_t rank = c.integer("axis", 0) + b.rank(); rank < a.rank(); ++rank) shape.push_back(1);
  return reshape(b, shape);
}

template <Tensor (*f)(const Tensor&, const Tensor&)>
Outputs binary(Call& c) {
  return {f(c.in(0), second(c))};
}

template <Tensor (*f)(const Tensor&, const Tensor&)>
Tensor fold(Call& c) {
  Tensor result = c.in(0);
  for (int i = 1; i < c.inputs(); ++i) result = f(result, c.in(i));
  return result;
}
template <Tensor (*f)(const Tensor&, const Tensor&)>
Outputs variadic(Call& c) {
  return {fold<f>(c)};
}

/// The result has the type of the base; only a floating one can take the exponent's type.
Outputs power(Call& c) {
  const Tensor &base = c.in(0), exponent = second(c);
  return {pow(base, is_floating(base) && exponent.dtype() != base.dtype() ? cast(exponent, base.dtype()) : exponent)};
}

Outputs clip(Call& c) {
  const Tensor& x = c.in(0);
  const bool attributes = c.opset() < 11;
  const double low = attributes ? c.number("min", -HUGE_VAL) : c.has(1) ? c.item(1) : -HUGE_VAL;
  const double high = attributes ? c.number("max", HUGE_VAL) : c.has(2) ? c.item(2) : HUGE_VAL;
  if (low > high) skip_law("clamp between a lower limit and a smaller upper one is an error");
  if (is_floating(x)) return {clamp(x, low, high)};
  const Tensor above = low == -HUGE_VAL ? x : maximum(x, low);
  return {high == HUGE_VAL ? above : minimum(above, high)};
}

/// A conversion that changes nothing here tests nothing.
Outputs convert(const Tensor& x, Type from, Type to) {
  const DType dtype = dtype_of(to);
  for (const Type type : {from, to})
    if (type == Type::f16 || type == Type::bf16) throw Skip{Skip::Reason::dtype_missing, name_of(type)};
  if (dtype == x.dtype() && from != to) throw Skip{Skip::Reason::dtype_missing, name_of(to)};
  return {cast(x, dtype)};
}
Outputs cast_to(Call& c) { return convert(c.in(0), c.type(0), static_cast<Type>(c.integer("to", 0))); }
Outputs cast_like(Call& c) {
  c.ignore_input(1);
  return convert(c.in(0), c.type(0), c.type(1));
}

Outputs is_infinite(Call& c) {
  const Tensor& x = c.in(0);
  const bool positive = c.integer("detect_positive", 1) != 0, negative = c.integer("detect_negative", 1) != 0;
  if (positive && negative) return {equal_to(abs(x), HUGE_VAL)};
  return {equal_to(x, positive ? HUGE_VAL : negative ? -HUGE_VAL : NAN)};
}

// Formulas of ops that the engine has only in parts.
Outputs selu(Call& c) {
  const double alpha = c.number("alpha", 1.67326319217681884765625), gamma = c.number("gamma", 1.05070102214813232421875);
  const Tensor& x = c.in(0);
  return {gamma * where(greater(x, 0.0), x, alpha * expm1(minimum(x, scalar_like(x, 0))))};
}
Outputs celu(Call& c) {
  const double alpha = c.number("alpha", 1);
  const Tensor& x = c.in(0);
  return {relu(x) + minimum(alpha * expm1(x / alpha), scalar_like(x, 0))};
}
Tensor hard_sigmoid_of(const Tensor& x, double alpha, double beta) { return minimum(relu(alpha * x + beta), scalar_like(x, 1)); }
Outputs hard_sigmoid(Call& c) { return {hard_sigmoid_of(c.in(0), c.number("alpha", 0.2), c.number("beta", 0.5))}; }
Outputs hard_swish(Call& c) { return {c.in(0) * hard_sigmoid_of(c.in(0), 1.0 / 6, 0.5)}; }
Outputs shrink(Call& c) {
  const double bias = c.number("bias", 0), lambda = c.number("lambd", 0.5);
  const Tensor& x = c.in(0);
  return {where(greater(x, lambda), x - bias, where(less(x, scalar_like(x, -lambda)), x + bias, 0.0))};
}
Outputs thresholded_relu(Call& c) { return {where(greater(c.in(0), c.number("alpha", 1)), c.in(0), 0.0)}; }
/// A slope a channel, without axes behind it before operator set 7.
Tensor slope_of(Call& c) {
  Shape shape = c.in(1).shape();
  if (c.opset() < 7 && c.in(1).numel() > 1)
    while (shape.rank() < c.in(0).rank() - 1) shape.push_back(1);
  return reshape(c.in(1), shape);
}

constexpr Entry entries[] = {
    {"Abs", unary<abs>},
    {"Neg", [](Call& c) -> Outputs { return {is_floating(c.in(0)) ? neg(c.in(0)) : sub(scalar_like(c.in(0), 0), c.in(0))}; }},
    {"Sign", unary<sign>},
    {"Reciprocal", unary<reciprocal>},
    {"Sqrt", unary<sqrt>},
    {"Exp", unary<exp>},
    {"Log", unary<log>},
    {"Sin", unary<sin>},
    {"Cos", unary<cos>},
    {"Tanh", unary<tanh>},
    {"Sigmoid", unary<sigmoid>},
    {"Erf", unary<erf>},
    {"Relu", unary<relu>},
    {"Floor", unary<floor>},
    {"Ceil", unary<ceil>},
    {"Round", unary<round>},
    {"Identity", [](Call& c) -> Outputs { return {c.in(0)}; }},
    {"Tan", [](Call& c) -> Outputs { return {sin(c.in(0)) / cos(c.in(0))}; }},
    {"Sinh", [](Call& c) -> Outputs { return {0.5 * (exp(c.in(0)) - exp(-c.in(0)))}; }},
    {"Cosh", [](Call& c) -> Outputs { return {0.5 * (exp(c.in(0)) + exp(-c.in(0)))}; }},
    {"Asinh", [](Call& c) -> Outputs { return {log(c.in(0) + sqrt(square(c.in(0)) + 1.0))}; }},
    {"Acosh", [](Call& c) -> Outputs { return {log(c.in(0) + sqrt(square(c.in(0)) - 1.0))}; }},
    {"Atanh", [](Call& c) -> Outputs { return {0.5 * (log1p(c.in(0)) - log1p(-c.in(0)))}; }},
    {"Softsign", [](Call& c) -> Outputs { return {c.in(0) / (1.0 + abs(c.in(0)))}; }},
    {"Selu", selu},
    {"Celu", celu},
    {"HardSigmoid", hard_sigmoid},
    {"HardSwish", hard_swish},
    {"Shrink", shrink},
    {"ThresholdedRelu", thresholded_relu},
    {"LeakyRelu", [](Call& c) -> Outputs { return {leaky_relu(c.in(0), c.number("alpha", 0.01))}; }},
    {"PRelu", [](Call& c) -> Outputs { return {where(greater(c.in(0), 0.0), c.in(0), slope_of(c) * c.in(0))}; }},
    {"Elu", [](Call& c) -> Outputs { return {elu(c.in(0), c.number("alpha", 1))}; }},
    {"Gelu", [](Call& c) -> Outputs { return {c.text("approximate", "none") == "tanh" ? gelu_tanh(c.in(0)) : gelu(c.in(0))}; }},
    {"Softplus", [](Call& c) -> Outputs { return {softplus(c.in(0))}; }},
    {"Mish", [](Call& c) -> Outputs { return {c.in(0) * tanh(softplus(c.in(0)))}; }},
    {"Clip", clip},

    {"Add", binary<add>},
    {"Sub", binary<sub>},
    {"Mul", binary<mul>},
    {"Div", binary<div>},
    {"Pow", power},
    {"Max", variadic<maximum>},
    {"Min", variadic<minimum>},
    {"Sum", variadic<add>},
    {"Mean", [](Call& c) -> Outputs { return {fold<add>(c) / c.inputs()}; }},

    {"Equal", binary<equal_to>},
    {"Less", binary<less>},
    {"LessOrEqual", binary<less_equal>},
    {"Greater", binary<greater>},
    {"GreaterOrEqual", binary<greater_equal>},
    {"Where", [](Call& c) -> Outputs { return {where(c.in(0), c.in(1), c.in(2))}; }},
    {"Not", unary<logical_not>},
    {"And", binary<logical_and>},
    {"Or", binary<logical_or>},
    {"Xor", binary<logical_xor>},
    {"IsNaN", [](Call& c) -> Outputs { return {not_equal(c.in(0), c.in(0))}; }},
    {"IsInf", is_infinite},

    {"Cast", cast_to},
    {"CastLike", cast_like},
};

}  // namespace

std::span<const Entry> elementwise_operators() { return entries; }

}  // namespace gradus::onnx
