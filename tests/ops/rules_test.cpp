// Gradient rules where finite differences do not reach: guards at singular points, ties, and rules that are themselves recorded.
#include <cmath>

#include "engine/autograd/gradcheck.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

using Function = std::function<Tensor(const Tensor&)>;

// The gradient of sum(df/dx * direction).
Tensor second(const Function& f, const Tensor& at, const Tensor& cotangent, const Tensor& direction) {
  Tape tape;
  const Tensor x = tape.variable(at);
  const Tensor slope = tape.backward(f(x), {.record = true, .cotangent = cotangent}).of(x);
  return tape.backward(sum(slope * direction)).of(x).detached();
}

}  // namespace

TEST_CASE("where_no_gradient_arrives_at_a_singular_point_none_is_sent", "[edge]") {
  const Tensor arrives = f64({0, 1}), zero = f64({0, 0.5});
  const std::vector<std::pair<const char*, Function>> singular_at_zero{{"reciprocal", [](const Tensor& x) { return reciprocal(x); }},
                                                                       {"rsqrt", [](const Tensor& x) { return rsqrt(x); }},
                                                                       {"sqrt", [](const Tensor& x) { return sqrt(x); }},
                                                                       {"log", [](const Tensor& x) { return log(x); }},
                                                                       {"log1p", [](const Tensor& x) { return log1p(x - 1.0); }},
                                                                       {"1 / x", [](const Tensor& x) { return 1.0 / x; }},
                                                                       {"x / x", [](const Tensor& x) { return x / x.detached(); }},
                                                                       {"x^-1", [](const Tensor& x) { return pow(x, -1.0); }},
                                                                       {"x^0.5", [](const Tensor& x) { return pow(x, 0.5); }}};
  for (const auto& [name, f] : singular_at_zero) {
    INFO(name);
    const Tensor g = gradient(f, zero, arrives);
    CHECK(g.at({0}) == 0);
    CHECK(std::isfinite(g.at({1})));
    CHECK(g.at({1}) != 0);
  }
  // d/db of 0^b at b < 0 is infinite; with nothing arriving, nothing is sent.
  const Tensor base = f64({0, 2});
  CHECK(gradient([&](const Tensor& b) { return pow(base, b); }, f64({-1, 3}), arrives).at({0}) == 0);
  CHECK(gradient([&](const Tensor& b) { return pow(base, b); }, f64({-1, 3}), f64({1, 1})).at({0}) == -inf);
}

TEST_CASE("powers_of_zero_have_finite_second_derivatives", "[edge]") {
  const Tensor one = f64({1}), zero = f64({0});
  CHECK(second([&](const Tensor& b) { return pow(zero, b); }, f64({2}), one, one).item() == 0);
  CHECK(second([](const Tensor& x) { return pow(x, 2.0); }, zero, one, one).item() == 2);
  CHECK(second([](const Tensor& x) { return pow(x, 3.0); }, zero, one, one).item() == 0);
}

TEST_CASE("equal_values_take_half_of_the_gradient_each", "[edge]") {
  const Tensor a = f64({1, 2, 3}), b = f64({1, 5, 0}), g = f64({10, 20, 30});
  for (const bool record : {false, true}) {
    CHECK(equal(gradient([&](const Tensor& x) { return maximum(x, b); }, a, g, record), f64({5, 0, 30})));
    CHECK(equal(gradient([&](const Tensor& x) { return maximum(b, x); }, a, g, record), f64({5, 0, 30})));
    CHECK(equal(gradient([&](const Tensor& x) { return minimum(x, b); }, a, g, record), f64({5, 20, 0})));
    CHECK(equal(gradient([&](const Tensor& x) { return minimum(b, x); }, a, g, record), f64({5, 20, 0})));
    CHECK(equal(gradient([](const Tensor& x) { return maximum(x, x); }, a, g, record), g));
  }
}

TEST_CASE("masked_entries_get_no_gradient_when_the_backward_is_recorded", "[edge]") {
  const Tensor x = f64({{1, -inf, 3, -inf}}), g = f64({{0.3, 100, -2, inf}});
  for (const Function& f : {Function([](const Tensor& t) { return softmax(t); }), Function([](const Tensor& t) { return log_softmax(t); })}) {
    const Tensor fused = gradient(f, x, g), recorded = gradient(f, x, g, true);
    CHECK(all_finite(recorded));
    CHECK(recorded.at({0, 1}) == 0);
    CHECK(recorded.at({0, 3}) == 0);
    CHECK(all_close(recorded, fused, 1e-14));
  }
}

TEST_CASE("softmax_in_its_parts_shifts_by_the_maximum_too", "[edge]") {
  const Tensor x = f64({{1e6, 1e6 + 1, -inf}, {-1e6, -1e6 - 2, 1e5 - 1e6}, {-inf, -inf, -inf}});
  Tape tape({.expand = true});
  CHECK(all_close(softmax(tape.variable(x)).detached(), softmax(x), 1e-14));
}

TEST_CASE("a_row_of_weights_that_sums_to_zero_has_finite_second_derivatives", "[edge]") {
  const Tensor x = f64({{1, -1}, {1, 3}}), g = f64({{1, 2}, {3, 4}});
  const Tensor h = second([](const Tensor& t) { return normalized_linear(t); }, x, g, g);
  CHECK(all_finite(h));
  CHECK((h.at({0, 0}) == 0 && h.at({0, 1}) == 0));
}

TEST_CASE("a_gradient_passes_through_a_cast_in_the_dtype_of_its_tensor", "[edge]") {
  const Tensor x = Tensor::of({1.5, -2}), g = f64({0.25, 3});
  const Tensor back = gradient([](const Tensor& t) { return cast(t, DType::f64); }, x, g);
  CHECK(equal(back, Tensor::of({0.25, 3})));
  CHECK(equal(gradient([](const Tensor& t) { return cast(t, DType::f32); }, f64({1.5, -2}), Tensor::of({0.25, 3})), g));
}
