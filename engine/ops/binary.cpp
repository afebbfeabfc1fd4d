// Elementwise functions of two tensors.
#include "engine/ops/define.hpp"

namespace gradus {
namespace {

using define::Inputs;
using define::unless_zero;
using kernels::Binary;

template <Binary kind>
void run_kernel(Run& r) {
  compute::binary(kind, r.in(0), r.in(1), r.out());
}

void broadcast_numbers(Run& r) {
  define::require_same_dtype(r, 0, 1);
  if (r.in(0).dtype() == DType::boolean) throw DTypeError(r.name(), "not defined on bool", "cast first");
  r.declare(broadcast_shapes(r.in(0).shape(), r.in(1).shape(), r.name()), r.in(0).dtype());
}

void broadcast_floating(Run& r) {
  define::require_floating(r, 0);
  broadcast_numbers(r);
}

template <Tensor (*f)(const Tensor&, const Tensor&)>
std::vector<OpCase> cases_on(double low, double high) {
  const auto call = [](Inputs x) { return f(x[0], x[1]); };
  const auto in = [&](const Shape& shape) { return uniform_input(shape, low, high); };
  return {{"same shape", {in({3, 4}), in({3, 4})}, call},   {"row and column", {in({3, 1}), in({1, 4})}, call},
          {"more axes", {in({2, 1, 4}), in({3, 4})}, call}, {"scalar", {in({5}), in({})}, call},
          {"vector of 67", {in({67}), in({67})}, call},     {"empty", {in({0, 4}), in({4})}, call}};
}

const OpDef sub_op = {.name = "sub",
                      .family = "elementwise",
                      .formula = "y = a - b",
                      .shapes = "(...), (...) -> broadcast (...)",
                      .dtypes = "f32 f64 i64",
                      .shape = broadcast_numbers,
                      .forward = run_kernel<Binary::sub>,
                      .vjp =
                          [](Vjp& b) {
                            b.to(0, b.grad());
                            if (b.needs(1)) b.to(1, -b.grad());
                          },
                      .cases = [] { return cases_on<sub>(-2, 2); }};

const OpDef mul_op = {.name = "mul",
                      .family = "elementwise",
                      .formula = R"(y = a \, b)",
                      .shapes = "(...), (...) -> broadcast (...)",
                      .dtypes = "f32 f64 i64",
                      .shape = broadcast_numbers,
                      .forward = run_kernel<Binary::mul>,
                      .vjp =
                          [](Vjp& b) {
                            if (b.needs(0)) b.to(0, b.grad() * b.input(1));
                            if (b.needs(1)) b.to(1, b.grad() * b.input(0));
                          },
                      .saves = save::inputs,
                      .cases = [] { return cases_on<mul>(-2, 2); }};

const OpDef div_op = {.name = "div",
                      .family = "elementwise",
                      .formula = "y = a / b",
                      .shapes = "(...), (...) -> broadcast (...)",
                      .law = "IEEE division; no gradient arriving sends none, even at b = 0",
                      .shape = broadcast_floating,
                      .forward = run_kernel<Binary::div>,
                      .vjp =
                          [](Vjp& b) {
                            const Tensor slope = unless_zero(b.grad(), b.grad() / b.input(1));
                            b.to(0, slope);
                            if (b.needs(1)) b.to(1, unless_zero(b.grad(), -slope * b.output()));
                          },
                      .saves = save::input(1) | save::output,
                      .cases = [] { return cases_on<div>(0.5, 2); }};

const OpDef pow_op = {.name = "pow",
                      .family = "elementwise",
                      .formula = "y = a^b",
                      .shapes = "(...), (...) -> broadcast (...)",
                      .law = "IEEE values; d/da of a^0 is 0, d/db of 0^b is 0 for b >= 0",
                      .shape = broadcast_floating,
                      .forward = run_kernel<Binary::pow>,
                      .vjp =
                          [](Vjp& b) {
                            const Tensor base = b.input(0), exponent = b.input(1), g = b.grad();
                            if (b.needs(0)) b.to(0, where(equal_to(exponent, 0.0), 0.0, unless_zero(g, g * (exponent * pow(base, exponent - 1.0)))));
                            if (!b.needs(1)) return;
                            // 0^b is flat in b from 0 upwards, as 1^b is; below, it is infinite and so is its slope.
                            const Tensor flat = where(equal_to(base, 0.0), less_equal(scalar_like(exponent, 0), exponent), 0.0);
                            b.to(1, unless_zero(g, g * (b.output() * log(where(flat, 1.0, base)))));
                          },
                      .saves = save::inputs | save::output,
                      .cases =
                          [] {
                            auto all = cases_on<pow>(0.4, 2.2);
                            all.push_back({"whole exponents, negative base", {value_input({4}, {-2, -1.5, -0.7, 3}), integer_input({4}, 4)}, [](Inputs x) {
                                             return pow(x[0], cast(x[1], x[0].dtype()));
                                           }});
                            return all;
                          }};

template <Binary kind, Tensor (*f)(const Tensor&, const Tensor&), bool wants_greater>
constexpr OpDef extremum(const char* name, const char* formula) {
  return {.name = name,
          .family = "elementwise",
          .formula = formula,
          .shapes = "(...), (...) -> broadcast (...)",
          .dtypes = "f32 f64 i64",
          .law = "NaN from either side propagates; equal values take half the gradient each",
          .shape = broadcast_numbers,
          .forward = run_kernel<kind>,
          .vjp =
              [](Vjp& b) {
                const Tensor x = b.input(0), y = b.input(1), g = b.grad();
                const Tensor first = wants_greater ? greater(x, y) : less(x, y), second = wants_greater ? less(x, y) : greater(x, y);
                const Tensor shared = where(equal_to(x, y), 0.5 * g, 0.0);
                b.to(0, where(first, g, shared));
                b.to(1, where(second, g, shared));
              },
          .saves = save::inputs,
          .cases =
              [] {
                auto all = cases_on<f>(-2, 2);
                all.push_back({"all equal", {value_input({3}, {1, -2, 0}), value_input({3}, {1, -2, 0})}, [](Inputs x) { return f(x[0], x[1]); }, true});
                return all;
              }};
}

const OpDef minimum_op = extremum<Binary::minimum, minimum, false>("minimum", R"(y = \min(a, b))");
const OpDef maximum_op = extremum<Binary::maximum, maximum, true>("maximum", R"(y = \max(a, b))");

}  // namespace

Tensor sub(const Tensor& a, const Tensor& b) { return apply(sub_op, {&a, &b}); }
Tensor mul(const Tensor& a, const Tensor& b) { return apply(mul_op, {&a, &b}); }
Tensor div(const Tensor& a, const Tensor& b) { return apply(div_op, {&a, &b}); }
Tensor pow(const Tensor& a, const Tensor& b) { return apply(pow_op, {&a, &b}); }
Tensor minimum(const Tensor& a, const Tensor& b) { return apply(minimum_op, {&a, &b}); }
Tensor maximum(const Tensor& a, const Tensor& b) { return apply(maximum_op, {&a, &b}); }

std::span<const OpDef* const> binary_ops() {
  static const OpDef* const all[] = {&sub_op, &mul_op, &div_op, &pow_op, &minimum_op, &maximum_op};
  return all;
}

}  // namespace gradus
