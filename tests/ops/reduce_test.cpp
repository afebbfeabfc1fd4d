// Variance, products, norms, quantifiers, and what every reduction does with nothing.
#include "engine/ops/reduce.hpp"

#include <limits>

#include "engine/ops/elementwise.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

using Reduction = Tensor (*)(const Tensor&, const ReduceOptions&);

// Of n elements of `x`, each times the others: what the gradient of prod must be.
std::vector<double> products_of_others(const std::vector<double>& x) {
  std::vector<double> result(x.size(), 1);
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j)
      if (i != j) result[i] *= x[j];
  return result;
}

}  // namespace

TEST_CASE("variance_divides_by_the_count_less_the_correction", "[reduce]") {
  const Tensor x = f64({{1, 2, 4, 9}, {3, 3, 3, 3}});
  CHECK(equal(var(x, {.axes = {1}}), f64({9.5, 0})));
  CHECK(all_close(var(x, {.axes = {1}}, 1), f64({38.0 / 3, 0}), 1e-15));
  CHECK(all_close(stddev(x, {.axes = {1}, .keep = true}, 1), f64({{std::sqrt(38.0 / 3)}, {0}}), 1e-15));
  CHECK_THROWS_AS(var(x, {.axes = {1}}, 4), ShapeError);
  CHECK_THROWS_AS(stddev(f64({1}), {}, 1), ShapeError);
  CHECK_THROWS_AS(var(x, {}, -1), ValueError);
  // Far from zero the mean is taken away before squaring.
  CHECK(var(f64({1e9 + 1, 1e9 + 2, 1e9 + 3})).item() == Approx(2.0 / 3).epsilon(1e-12));
}

TEST_CASE("deviation_of_a_constant_row_has_gradient_zero", "[reduce][edge]") {
  for (const Tensor& row : {f64({2, 2, 2}), f64({0, 0}), f64({7})}) {
    const auto f = [](const Tensor& x) { return stddev(x); };
    CHECK(stddev(row).item() == 0);
    CHECK(equal(gradient(f, row, f64(1)), Tensor::zeros(row.shape(), DType::f64)));
  }
  // One constant row leaves the others alone.
  const Tensor g = gradient([](const Tensor& x) { return stddev(x, {.axes = {1}}); }, f64({{5, 5}, {1, 3}}), f64({1, 1}));
  CHECK(equal(g, f64({{0, 0}, {-0.5, 0.5}})));
}

TEST_CASE("products_have_the_right_gradient_with_zeros_among_the_factors", "[reduce][edge]") {
  for (const std::vector<double>& x : {std::vector<double>{2, -3, 0.5, 4}, {2, 0, 5, -1}, {0, 3, 0, 2}, {0, 0, 0}, {7}}) {
    const Tensor at = Tensor::from(x, {static_cast<index_t>(x.size())}), expected = Tensor::from(products_of_others(x), at.shape());
    CHECK(all_close(gradient([](const Tensor& t) { return prod(t); }, at, f64(1)), expected, 1e-14));
    CHECK(gradcheck_second([](std::span<const Tensor> t) { return prod(t[0]); }, std::vector<Tensor>{at}).passed);
  }
  CHECK(prod(Tensor::zeros({0}, DType::f64)).item() == 1);
  CHECK(std::isnan(prod(f64({0, not_a_number})).item()));
  CHECK(equal(prod(f64({{1, 2}, {3, 4}}), {.axes = {0}, .keep = true}), f64({{3, 8}})));
}

TEST_CASE("norms_are_their_formulas_and_know_no_other_p", "[reduce]") {
  const Tensor x = f64({{3, -4}, {0, 2}});
  CHECK(equal(norm(x, 1, {.axes = {1}}), f64({7, 2})));
  CHECK(equal(norm(x, 2, {.axes = {1}}), f64({5, 2})));
  CHECK(equal(norm(x, inf, {.axes = {1}, .keep = true}), f64({{4}, {2}})));
  for (const double p : {0.0, 0.5, 3.0, -inf, not_a_number}) CHECK_THROWS_AS(norm(x, p), ValueError);
  CHECK(std::isnan(norm(f64({0, not_a_number})).item()));
  for (const double p : {1.0, 2.0, inf}) CHECK(norm(Tensor::zeros({0}, DType::f64), p).item() == 0);
}

TEST_CASE("norm_at_the_zero_vector_has_gradient_zero", "[reduce][edge]") {
  for (const double p : {1.0, 2.0, inf}) {
    const auto rows = [p](const Tensor& x) { return norm(x, p, {.axes = {1}}); };
    CHECK(equal(gradient(rows, Tensor::zeros({2, 3}, DType::f64)), Tensor::zeros({2, 3}, DType::f64)));
    const Tensor g = gradient(rows, f64({{0, 0}, {3, 4}}), f64({1, 1}));
    CHECK(all_finite(g));
    CHECK((g.at({0, 0}) == 0 && g.at({0, 1}) == 0 && g.at({1, 1}) > 0));
  }
  const Tensor x = f64({1, -2, 0});
  CHECK(all_close(gradient([](const Tensor& t) { return square(norm(t)); }, x, f64(1)), 2.0 * x, 1e-14));
  CHECK(equal(gradient([](const Tensor& t) { return square(norm(t)); }, f64({0, 0}), f64(1)), f64({0, 0})));
  // Equal largest elements share the gradient of the maximum norm, signs and all.
  CHECK(equal(gradient([](const Tensor& t) { return norm(t, inf); }, f64({-2, 2, 1}), f64(1)), f64({-0.5, 0.5, 0})));
}

TEST_CASE("ties_of_every_extremum_share_what_arrives", "[reduce][edge]") {
  const auto largest = [](const Tensor& t, const ReduceOptions& o) { return norm(t, inf, o); };
  for (const Reduction f : {static_cast<Reduction>(max), static_cast<Reduction>(min), static_cast<Reduction>(largest)})
    for (const index_t n : {1, 2, 70000}) {
      const Tensor g = gradient([&](const Tensor& x) { return f(x, {}); }, Tensor::full({n}, 3, DType::f64), f64(2));
      CHECK(sum(g).item() == Approx(2).epsilon(1e-12));
      CHECK(g.at({0}) == g.at({n - 1}));
    }
}

TEST_CASE("all_and_any_of_bools", "[reduce]") {
  const Tensor x = booleans({{1, 1, 1}, {0, 1, 0}, {0, 0, 0}});
  CHECK(equal(all(x, {.axes = {1}}), booleans({1, 0, 0})));
  CHECK(equal(any(x, {.axes = {1}}), booleans({1, 1, 0})));
  CHECK(equal(any(x, {.axes = {0}, .keep = true}), booleans({{1, 1, 1}})));
  CHECK(all(booleans({1, 1})).item() == 1);
  CHECK(all(Tensor::zeros({0}, DType::boolean)).item() == 1);
  CHECK(any(Tensor::zeros({0}, DType::boolean)).item() == 0);
  CHECK_THROWS_AS(all(Tensor::ones({2})), DTypeError);
  CHECK_THROWS_AS(any(Tensor::arange(2)), DTypeError);
}

TEST_CASE("nan_is_seen_by_reductions_at_every_index_of_every_length", "[reduce][edge]") {
  for (index_t n = 1; n <= 67; n += 3)
    for (index_t at = 0; at < n; ++at) {
      Tensor x = Tensor::ones({n});
      x.set({at}, not_a_number);
      for (const Tensor& y : {var(x), stddev(x), prod(x), norm(x, 1), norm(x, 2), norm(x, inf), logsumexp(x), mean(x)})
        if (!std::isnan(y.item())) FAIL("hidden at index " << at << " of " << n);
    }
}

TEST_CASE("every_reduction_of_an_empty_tensor_is_its_identity_an_error_or_empty", "[reduce][edge]") {
  struct OfNothing {
    const char* name;
    Reduction f;
    double identity;  // NaN: an error
  };
  const OfNothing table[] = {{"sum", sum, 0},
                             {"prod", prod, 1},
                             {"logsumexp", logsumexp, -inf},
                             {"norm", [](const Tensor& x, const ReduceOptions& o) { return norm(x, 2, o); }, 0},
                             {"maximum norm", [](const Tensor& x, const ReduceOptions& o) { return norm(x, inf, o); }, 0},
                             {"mean", mean, not_a_number},
                             {"max", max, not_a_number},
                             {"min", min, not_a_number},
                             {"var", [](const Tensor& x, const ReduceOptions& o) { return var(x, o); }, not_a_number},
                             {"std", [](const Tensor& x, const ReduceOptions& o) { return stddev(x, o); }, not_a_number}};
  for (const OfNothing& row : table)
    for (const Shape& shape : {Shape{0, 4}, Shape{4, 0}, Shape{0, 0}})
      for (int axis = 0; axis < 2; ++axis) {
        INFO(row.name << " of " << shape << " along " << axis);
        const Tensor x = Tensor::zeros(shape, DType::f64);
        const Shape result{shape[1 - axis]};
        if (result[0] > 0 && std::isnan(row.identity)) {
          CHECK_THROWS_AS(row.f(x, {.axes = {axis}}), ShapeError);
          continue;
        }
        CHECK(equal(row.f(x, {.axes = {axis}}), Tensor::full(result, result[0] > 0 ? row.identity : 0, DType::f64)));
        CHECK(gradient([&](const Tensor& t) { return row.f(t, {.axes = {axis}}); }, x).shape() == shape);
      }
}

TEST_CASE("rank_0_is_ordinary_for_every_reduction", "[reduce][edge]") {
  const Tensor x = f64(-3);
  CHECK(prod(x).item() == -3);
  CHECK(var(x).item() == 0);
  CHECK(norm(x).item() == 3);
  CHECK(norm(x, inf, {.keep = true}).rank() == 0);
  CHECK(all(Tensor::ones({}, DType::boolean)).item() == 1);
  CHECK(gradient([](const Tensor& t) { return exp(prod(t)) + norm(t); }, x, f64(1)).item() == Approx(std::exp(-3.0) - 1).epsilon(1e-14));
}
