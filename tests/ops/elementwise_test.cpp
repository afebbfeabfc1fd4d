// Activations, clamp, logic, plain numbers as operands, and broadcasting of every elementwise op.
#include <limits>

#include "engine/ops/activation.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/registry.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

using Function = Tensor (*)(const Tensor&);

struct Activation {
  const char* name;
  Function ours;
  double (*formula)(double);
};

double normal_distribution(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

const Activation activations[] = {
    {"leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.2); }, [](double x) { return x > 0 ? x : 0.2 * x; }},
    {"elu", [](const Tensor& x) { return elu(x, 1.5); }, [](double x) { return x > 0 ? x : 1.5 * std::expm1(x); }},
    {"gelu", gelu, [](double x) { return x * normal_distribution(x); }},
    {"gelu_tanh", gelu_tanh, [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x))); }},
    {"silu", silu, [](double x) { return x / (1 + std::exp(-x)); }},
    {"softplus", [](const Tensor& x) { return softplus(x, 2.0); }, [](double x) { return std::log1p(std::exp(2 * x)) / 2; }},
    {"clamp", [](const Tensor& x) { return clamp(x, -1.25, 0.75); }, [](double x) { return std::min(std::max(x, -1.25), 0.75); }},
};

double value(Function f, double x) { return f(Tensor::scalar(x, DType::f64)).item(); }
double slope(Function f, double x) { return gradient(f, Tensor::scalar(x, DType::f64), Tensor::scalar(1, DType::f64)).item(); }

}  // namespace

TEST_CASE("activations_are_their_formulas", "[elementwise]") {
  for (const Activation& activation : activations)
    for (double x = -6; x <= 6; x += 0.375) {
      INFO(activation.name << " at " << x);
      CHECK(value(activation.ours, x) == Approx(activation.formula(x)).epsilon(1e-12).margin(1e-15));
    }
}

TEST_CASE("activations_hold_their_limits_far_out_in_value_and_gradient", "[elementwise][edge]") {
  for (const Activation& activation : activations) {
    INFO(activation.name);
    CHECK(std::isnan(value(activation.ours, not_a_number)));
    CHECK(std::isnan(value(activation.ours, -not_a_number)));
    for (const double far : {50.0, 1e4, 1e30, 1e200, inf}) {
      const bool bounded = activation.ours(Tensor::scalar(inf, DType::f64)).item() < inf;
      CHECK(slope(activation.ours, far) == (bounded ? 0 : 1));
      CHECK(value(activation.ours, far) == (bounded ? 0.75 : far));
      CHECK_FALSE(std::isnan(value(activation.ours, -far)));
      CHECK(std::isfinite(slope(activation.ours, -far)));
    }
  }
  for (const Function f : {gelu, gelu_tanh, silu}) {
    CHECK(value(f, -inf) == 0);
    CHECK(slope(f, -inf) == 0);
  }
  CHECK(value([](const Tensor& x) { return softplus(x); }, -inf) == 0);
  CHECK(value([](const Tensor& x) { return softplus(x); }, -40) == Approx(std::exp(-40.0)).epsilon(1e-14));
  CHECK(softplus(Tensor::scalar(-80)).item() > 0);
  CHECK(value([](const Tensor& x) { return elu(x, 2.0); }, -inf) == -2);
}

TEST_CASE("gradients_of_activations_at_their_kinks", "[elementwise][edge]") {
  CHECK(slope([](const Tensor& x) { return leaky_relu(x); }, 0) == 0);
  CHECK(slope([](const Tensor& x) { return elu(x); }, 0) == 1);
  CHECK(slope([](const Tensor& x) { return elu(x, 3.0); }, 0) == 3);
  CHECK(slope(gelu, 0) == 0.5);
  CHECK(slope(silu, 0) == 0.5);
  CHECK(slope([](const Tensor& x) { return softplus(x); }, 0) == 0.5);
  const auto edges = [](const Tensor& x) { return clamp(x, -1, 1); };
  for (const double x : {-2.0, -1.0, 1.0, 2.0}) CHECK(slope(edges, x) == 0);
  CHECK(slope(edges, 0.999) == 1);
}

TEST_CASE("clamp_bounds_may_be_infinite_or_equal_but_not_crossed", "[elementwise]") {
  const Tensor x = f64({-inf, -3, 0.5, 3, inf});
  CHECK(equal(clamp(x, -inf, 1), f64({-inf, -3, 0.5, 1, 1})));
  CHECK(equal(clamp(x, 0, inf), f64({0, 0, 0.5, 3, inf})));
  CHECK(equal(clamp(x, 2, 2), Tensor::full({5}, 2, DType::f64)));
  CHECK_THROWS_AS(clamp(x, 1, -1), ValueError);
  CHECK_THROWS_AS(clamp(x, not_a_number, 1), ValueError);
}

TEST_CASE("nan_is_seen_by_activations_at_every_index_of_every_length", "[elementwise][edge]") {
  for (const Activation& activation : activations)
    for (index_t n = 1; n <= 67; n += 6)
      for (index_t at = 0; at < n; ++at) {
        Tensor x = Tensor::ones({n});
        x.set({at}, not_a_number);
        const std::vector<float> y = activation.ours(x).to_vector<float>();
        for (index_t i = 0; i < n; ++i)
          if (std::isnan(y[static_cast<std::size_t>(i)]) != (i == at)) FAIL(activation.name << " at index " << at << " of " << n);
      }
}

TEST_CASE("activation_parameters_may_be_learnt", "[elementwise]") {
  const Tensor x = f64({-2, 0, 3}), one = Tensor::ones({3}, DType::f64);
  CHECK(gradient([&](const Tensor& slope_of) { return leaky_relu(x, slope_of); }, Tensor::scalar(0.1, DType::f64), one).item() == -2);
  CHECK(gradient([&](const Tensor& alpha) { return elu(x, alpha); }, Tensor::scalar(0.1, DType::f64), one).item() == Approx(std::expm1(-2.0)));
  CHECK_THROWS_AS(leaky_relu(x, one), ShapeError);
  CHECK_THROWS_AS(elu(x, Tensor::scalar(1)), DTypeError);
  for (const double beta : {0.0, -1.0, not_a_number, inf}) {
    CHECK_THROWS_AS(softplus(x, beta), ValueError);
    CHECK_THROWS_AS(softplus(x, Tensor::scalar(beta, DType::f64)), ValueError);
  }
}

TEST_CASE("logical_ops_follow_their_truth_tables", "[elementwise]") {
  const Tensor a = booleans({0, 0, 1, 1}), b = booleans({0, 1, 0, 1});
  CHECK(equal(logical_and(a, b), booleans({0, 0, 0, 1})));
  CHECK(equal(logical_or(a, b), booleans({0, 1, 1, 1})));
  CHECK(equal(logical_xor(a, b), booleans({0, 1, 1, 0})));
  CHECK(equal(logical_not(a), booleans({1, 1, 0, 0})));
  CHECK(equal(logical_and(booleans({{1}, {0}}), booleans({1, 0, 1})), booleans({{1, 0, 1}, {0, 0, 0}})));
  CHECK_THROWS_AS(logical_and(a, Tensor::ones({4})), DTypeError);
  CHECK_THROWS_AS(logical_or(Tensor::ones({4}), b), DTypeError);
  CHECK_THROWS_AS(logical_not(Tensor::arange(2)), DTypeError);
}

TEST_CASE("plain_numbers_stand_on_either_side", "[elementwise]") {
  const Tensor x = f64({1, 2, 3});
  CHECK(equal(less(x, 2), booleans({1, 0, 0})));
  CHECK(equal(less(2, x), booleans({0, 0, 1})));
  CHECK(equal(less_equal(x, 2), booleans({1, 1, 0})));
  CHECK(equal(less_equal(2, x), booleans({0, 1, 1})));
  CHECK(equal(greater(x, 2), booleans({0, 0, 1})));
  CHECK(equal(greater(2, x), booleans({1, 0, 0})));
  CHECK(equal(greater_equal(x, 2), booleans({0, 1, 1})));
  CHECK(equal(greater_equal(2, x), booleans({1, 1, 0})));
  CHECK(equal(equal_to(x, 2), booleans({0, 1, 0})));
  CHECK(equal(equal_to(2, x), booleans({0, 1, 0})));
  CHECK(equal(not_equal(x, 2), booleans({1, 0, 1})));
  CHECK(equal(not_equal(2, x), booleans({1, 0, 1})));
  CHECK(equal(minimum(x, 2), f64({1, 2, 2})));
  CHECK(equal(minimum(2, x), f64({1, 2, 2})));
  CHECK(equal(maximum(x, 2), f64({2, 2, 3})));
  CHECK(equal(maximum(2, x), f64({2, 2, 3})));
  CHECK(equal(pow(x, 2), f64({1, 4, 9})));
  CHECK(equal(pow(2, x), f64({2, 4, 8})));
  CHECK(std::isnan(maximum(f64({not_a_number}), 0).item()));
  CHECK(std::isnan(minimum(0, f64({not_a_number})).item()));
}

TEST_CASE("the_branch_not_taken_of_maximum_is_not_seen", "[elementwise][edge]") {
  const auto floor_of_root = [](const Tensor& x) { return maximum(sqrt(x), 1e-10); };
  CHECK(gradient(floor_of_root, f64({0.0}), f64({1})).item() == 0);
  CHECK(gradient([](const Tensor& x) { return where(greater(x, 0.0), log(x), 0.0); }, f64({0.0}), f64({1})).item() == 0);
}

TEST_CASE("gradients_have_the_shape_of_their_operand_for_every_pair_of_broadcast_shapes", "[elementwise][edge]") {
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  const Shape shapes[] = {{}, {1}, {4}, {1, 4}, {3, 1}, {3, 4}, {2, 1, 4}};
  for (const Binary f : {static_cast<Binary>(add), static_cast<Binary>(sub), static_cast<Binary>(mul), static_cast<Binary>(div), static_cast<Binary>(pow),
                         static_cast<Binary>(minimum), static_cast<Binary>(maximum)})
    for (const Shape& a : shapes)
      for (const Shape& b : shapes) {
        Tape tape;
        const Tensor x = random_uniform(a, DType::f64, 0.5, 2, 1), y = random_uniform(b, DType::f64, 0.5, 2, 2);
        const Tensor left = tape.variable(x), right = tape.variable(y), z = f(left, right);
        const Tensor cotangent = random_normal(z.shape(), DType::f64, 3);
        const Gradients gradients = tape.backward(z, {.cotangent = cotangent});
        REQUIRE(gradients.of(left).shape() == a);
        REQUIRE(gradients.of(right).shape() == b);
        // The same with the operands spread out first, summed back.
        const auto spread = [&](const Tensor& t) { return add(Tensor::zeros(z.shape(), DType::f64), t); };
        const Tensor whole = gradient([&](const Tensor& t) { return f(t, spread(y)); }, spread(x), cotangent);
        CHECK(all_close(gradients.of(left), sum_to_shape(whole, a), 1e-12, 1e-14));
      }
}
