// Running sums, products and linear recurrences.
#include "engine/ops/scan.hpp"

#include <limits>

#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

TEST_CASE("scans_run_along_their_axis_in_either_direction", "[scan]") {
  const Tensor x = f64({{1, 2, 3}, {4, 5, 6}});
  CHECK(equal(cumsum(x), f64({{1, 3, 6}, {4, 9, 15}})));
  CHECK(equal(cumsum(x, {.axis = 0}), f64({{1, 2, 3}, {5, 7, 9}})));
  CHECK(equal(cumsum(x, {.reverse = true}), f64({{6, 5, 3}, {15, 11, 6}})));
  CHECK(equal(cumprod(x), f64({{1, 2, 6}, {4, 20, 120}})));
  CHECK(equal(cumprod(x, {.axis = 0, .reverse = true}), f64({{4, 10, 18}, {4, 5, 6}})));
  CHECK(equal(linear_scan(f64({9, 2, 0, 3}), f64({1, 1, 5, -1})), f64({1, 3, 5, 14})));
  CHECK(equal(linear_scan(f64(0.5), f64({8, 8, 8}), {.reverse = true}), f64({14, 12, 8})));
  CHECK_THROWS_AS(cumsum(x, {.axis = 2}), IndexError);
  CHECK_THROWS_AS(cumsum(Tensor::scalar(1)), IndexError);
  CHECK_THROWS_AS(cumsum(Tensor::arange(3)), DTypeError);
}

TEST_CASE("the_last_of_a_running_result_is_the_whole", "[scan]") {
  // Wide enough for several strips of columns, long enough for several tasks.
  const Tensor x = random_normal({3, 40, 700}, DType::f64, 1);
  const Tensor last = select(cumsum(x, {.axis = 1}), 1, -1);
  CHECK(all_close(last, sum(x, {.axes = {1}}), 1e-12, 1e-12));
  CHECK(bit_equal(cumsum(transpose(x), {.axis = 2}), copy(transpose(cumsum(x, {.axis = 1})))));
  const Tensor factors = random_uniform({50, 6}, DType::f64, 0.9, 1.1, 2);
  CHECK(all_close(select(cumprod(factors, {.axis = 0}), 0, -1), prod(factors, {.axes = {0}}), 1e-13));
}

TEST_CASE("running_products_have_the_right_gradient_with_zeros_among_the_factors", "[scan][edge]") {
  for (const Tensor& x : {f64({2, 0, 3, -1}), f64({0, 1.5, 0, 2}), f64({0, 0, 0}), f64({3, 2, 0})}) {
    const auto f = [](std::span<const Tensor> t) { return cumprod(t[0]); };
    CHECK(gradcheck(f, std::vector<Tensor>{x}).passed);
    CHECK(gradcheck_second(f, std::vector<Tensor>{x}).passed);
  }
}

TEST_CASE("nan_is_seen_from_its_place_onwards", "[scan][edge]") {
  Tensor x = Tensor::ones({5}, DType::f64);
  x.set({2}, std::numeric_limits<double>::quiet_NaN());
  for (const Tensor& y : {cumsum(x), cumprod(x)})
    for (index_t i = 0; i < 5; ++i) CHECK(std::isnan(y.at({i})) == (i >= 2));
  for (index_t i = 0; i < 5; ++i) CHECK(std::isnan(cumsum(x, {.reverse = true}).at({i})) == (i <= 2));
}

TEST_CASE("scans_of_nothing_are_empty", "[scan][edge]") {
  for (const Shape& shape : {Shape{0, 4}, Shape{4, 0}, Shape{0, 0}})
    for (const index_t axis : {0, 1}) {
      const Tensor x = Tensor::zeros(shape, DType::f64);
      CHECK(cumsum(x, {.axis = axis}).shape() == shape);
      CHECK(cumprod(x, {.axis = axis}).shape() == shape);
      CHECK(gradient([&](const Tensor& t) { return linear_scan(t, t, {.axis = axis}); }, x).shape() == shape);
    }
}
