// Order: ties, NaN, and where gradients go.
#include "engine/ops/sort.hpp"

#include <algorithm>
#include <limits>

#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

Tensor indices(std::vector<std::int64_t> values) { return Tensor::from(values, {static_cast<index_t>(values.size())}); }

}  // namespace

TEST_CASE("equal_elements_keep_their_order_in_both_directions", "[sort][edge]") {
  const Tensor x = f64({2, 1, 2, 0, 1, -0.0});
  CHECK(equal(argsort(x), indices({3, 5, 1, 4, 0, 2})));
  CHECK(equal(argsort(x, {.descending = true}), indices({0, 2, 1, 4, 3, 5})));
  CHECK(equal(topk(x, 3).indices, indices({0, 2, 1})));
  CHECK(equal(topk(x, 3, {.largest = false}).indices, indices({3, 5, 1})));
  const Tensor same = Tensor::zeros({100});
  CHECK(equal(argsort(same, {.descending = true}), Tensor::arange(100)));
  CHECK(equal(topk(same, 10).indices, Tensor::arange(10)));
}

TEST_CASE("nan_is_the_greatest_number", "[sort][edge]") {
  const Tensor x = f64({1, not_a_number, inf, -inf, not_a_number});
  CHECK(equal(argsort(x), indices({3, 0, 2, 1, 4})));
  CHECK(equal(argsort(x, {.descending = true}), indices({1, 4, 2, 0, 3})));
  CHECK(equal(sort(x), f64({-inf, 1, inf, not_a_number, not_a_number}), true));
  CHECK(std::isnan(topk(x, 1).values.item()));
  CHECK(topk(x, 1, {.largest = false}).values.item() == -inf);
}

TEST_CASE("sorting_agrees_with_the_standard_library_along_any_axis", "[sort]") {
  const Tensor x = random_normal({5, 301, 3}, DType::f64, 1);
  const Tensor sorted = sort(x, {.axis = 1}), best = topk(x, 7, {.axis = 1}).values;
  for (index_t i = 0; i < 5; ++i)
    for (index_t j = 0; j < 3; ++j) {
      std::vector<double> column = view::select(view::select(x, 0, i), 1, j).to_vector<double>();
      std::sort(column.begin(), column.end());
      CHECK(view::select(view::select(sorted, 0, i), 1, j).to_vector<double>() == column);
      std::reverse(column.begin(), column.end());
      column.resize(7);
      CHECK(view::select(view::select(best, 0, i), 1, j).to_vector<double>() == column);
    }
  CHECK(equal(sort(Tensor::of({3, 1, 2}, DType::i64), {.descending = true}), Tensor::of({3, 2, 1}, DType::i64)));
}

TEST_CASE("each_sorted_element_sends_its_gradient_home", "[sort]") {
  CHECK(equal(gradient([](const Tensor& x) { return sort(x); }, f64({3, 1, 2}), f64({10, 20, 30})), f64({30, 10, 20})));
  CHECK(equal(gradient([](const Tensor& x) { return topk(x, 2).values; }, f64({3, 1, 3, 4}), f64({1, 5})), f64({5, 0, 0, 1})));
}

TEST_CASE("more_than_there_are_is_an_error_and_nothing_is_empty", "[sort][edge]") {
  const Tensor x = f64({1, 2, 3});
  CHECK_THROWS_AS(topk(x, 4), ValueError);
  CHECK_THROWS_AS(topk(x, -1), ValueError);
  CHECK_THROWS_AS(topk(Tensor::scalar(1), 1), IndexError);
  CHECK_THROWS_AS(sort(x, {.axis = 1}), IndexError);
  CHECK_THROWS_AS(argsort(booleans({1, 0})), DTypeError);
  CHECK(topk(x, 0).values.shape() == Shape{0});
  for (const Shape& shape : {Shape{0, 4}, Shape{4, 0}})
    for (const index_t axis : {0, 1}) {
      const Tensor nothing = Tensor::zeros(shape, DType::f64);
      CHECK(sort(nothing, {.axis = axis}).shape() == shape);
      CHECK(argsort(nothing, {.axis = axis}).shape() == shape);
      CHECK(gradient([&](const Tensor& t) { return sort(t, {.axis = axis}); }, nothing).shape() == shape);
    }
}
