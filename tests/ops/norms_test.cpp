// Normalisation of activations: values, edges, running statistics and errors.
#include "engine/ops/norms.hpp"

#include "engine/ops/elementwise.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using gradus::testing::all_finite;
using gradus::testing::f64;
using gradus::testing::gradient;
using gradus::testing::inf;
using gradus::testing::message_of;
using gradus::testing::not_a_number;

TEST_CASE("layer_norm_of_a_constant_row_is_the_bias_with_a_finite_gradient", "[norms][edge]") {
  const Tensor bias = f64({0.5, -1, 2});
  for (const double eps : {1e-5, 1e-12})
    for (const Nested& rows : {Nested{{0.1, 0.1, 0.1}, {0, 0, 0}}, Nested{{3, 3, 3}, {1e6, 1e6, 1e6}}})
      for (const DType dtype : {DType::f32, DType::f64}) {
        const Tensor b = cast(bias, dtype), x = Tensor::of(rows, dtype);
        const auto f = [&](const Tensor& t) { return layer_norm(t, {.bias = b, .eps = eps}); };
        CHECK(max_difference(f(x), b + Tensor::zeros({2, 3}, dtype)) < 0.1);
        for (const bool record : {false, true}) CHECK(all_finite(gradient(f, x, {}, record)));
      }
  // A row of one element is a constant row: it tells nothing of x.
  const Tensor single = f64({{5}, {-7}});
  CHECK(equal(layer_norm(single, {.bias = f64({2}), .eps = 1e-12}), f64({{2}, {2}})));
  CHECK(equal(gradient([](const Tensor& t) { return layer_norm(t, {.eps = 1e-12}); }, single), Tensor::zeros({2, 1}, DType::f64)));
}

TEST_CASE("an_all_zero_token_leaves_every_norm_and_the_other_tokens_alone", "[norms][edge]") {
  const Tensor x = f64({{1, -2, 0.5}, {0, 0, 0}}), others = f64({{1, -2, 0.5}}), cotangent = f64({{0.3, 1, -2}, {1, 2, 3}}), first = f64({{0.3, 1, -2}});
  const std::vector<std::function<Tensor(const Tensor&)>> norms{[](const Tensor& t) { return layer_norm(t, {.eps = 1e-12}); },
                                                                [](const Tensor& t) { return rms_norm(t, {.eps = 1e-12}); },
                                                                [](const Tensor& t) { return l2_normalize(t); }};
  for (const auto& f : norms)
    for (const bool record : {false, true}) {
      CHECK(equal(view::slice(f(x), 0, {1, 2}), Tensor::zeros({1, 3}, DType::f64)));
      const Tensor g = gradient(f, x, cotangent, record);
      CHECK(all_finite(g));
      CHECK(equal(view::slice(g, 0, {0, 1}), gradient(f, others, first, record)));
    }
  CHECK(equal(view::slice(gradient(norms[2], x, cotangent), 0, {1, 2}), Tensor::zeros({1, 3}, DType::f64)));
}

TEST_CASE("layer_norm and rms_norm are their formulas", "[norms]") {
  const Tensor x = f64({{1, 2, 4, -3}, {0.5, 0.25, 8, 1}}), weight = f64({1, 2, 3, 4}), bias = f64({-1, 0, 1, 0.5});
  const Tensor layer = layer_norm(x, {.weight = weight, .bias = bias, .eps = 0.125}), rms = rms_norm(x, {.weight = weight, .eps = 0.125});
  for (index_t r = 0; r < 2; ++r) {
    double mean = 0, square = 0;
    for (index_t i = 0; i < 4; ++i) {
      mean += x.at({r, i}) / 4;
      square += x.at({r, i}) * x.at({r, i}) / 4;
    }
    for (index_t i = 0; i < 4; ++i) {
      const double deviation = (x.at({r, i}) - mean) / std::sqrt(square - mean * mean + 0.125);
      CHECK(layer.at({r, i}) == Approx(deviation * weight.at({i}) + bias.at({i})).epsilon(1e-13));
      CHECK(rms.at({r, i}) == Approx(x.at({r, i}) / std::sqrt(square + 0.125) * weight.at({i})).epsilon(1e-13));
    }
  }
  // Over two axes: as if they were one.
  const Tensor cube = random_normal({5, 2, 3}, DType::f64, 1), flat = view::reshape(cube, {5, 6});
  CHECK(bit_equal(view::reshape(layer_norm(cube, {.axes = 2}), {5, 6}), layer_norm(flat)));
  CHECK(bit_equal(view::reshape(rms_norm(cube, {.axes = 2}), {5, 6}), rms_norm(flat)));
  CHECK_FALSE(equal(rms_norm(cube), rms_norm(cube, {.axes = 2})));
}

TEST_CASE("l2_normalize neither overflows nor underflows", "[norms]") {
  for (const double scale : {1e-310, 1e-200, 1.0, 1e200, 1e308}) {
    const Tensor y = l2_normalize(f64({{0.3 * scale, 0.4 * scale}}));
    CHECK(y.at({0, 0}) == Approx(0.6).epsilon(1e-12));
    CHECK(y.at({0, 1}) == Approx(0.8).epsilon(1e-12));
  }
  CHECK(all_close(l2_normalize(f64({-3, -4})), f64({-0.6, -0.8}), 1e-15));
  CHECK(std::isnan(l2_normalize(f64({1, not_a_number})).at({0})));
}

TEST_CASE("batch_norm keeps its running statistics outside", "[norms]") {
  const Tensor x = f64({{{1, 3}, {2, 2}}, {{5, 7}, {2, 6}}});  // channel means 4 and 3, variances 5 and 3
  const Tensor mean = f64({1, -1}), variance = f64({2, 4});
  const BatchNormStep step = batch_norm_train(x, mean, variance, {.eps = 0.25, .momentum = 0.25});
  CHECK(all_close(step.running_mean, f64({0.75 * 1 + 0.25 * 4, -0.75 + 0.25 * 3}), 1e-14));
  CHECK(all_close(step.running_variance, f64({0.75 * 2 + 0.25 * 5 * 4 / 3, 0.75 * 4 + 0.25 * 3 * 4 / 3}), 1e-14));
  CHECK(step.y.at({0, 1, 0}) == Approx((2 - 3) / std::sqrt(3.25)).epsilon(1e-14));
  CHECK(equal(mean, f64({1, -1})));
  const BatchNormStep population = batch_norm_train(x, mean, variance, {.momentum = 1, .correction = 0});
  CHECK(all_close(population.running_mean, f64({4, 3}), 1e-14));
  CHECK(all_close(population.running_variance, f64({5, 3}), 1e-14));
  // Evaluation uses what it is given, and gives what training gave when that is the batch's own.
  CHECK(batch_norm(x, mean, variance, {.eps = 0.25}).at({1, 0, 1}) == Approx((7 - 1) / std::sqrt(2.25)).epsilon(1e-14));
  CHECK(all_close(batch_norm(x, population.running_mean, population.running_variance), population.y, 1e-13));
  // No gradient leaks into the statistics, and none is lost through the batch's own: a shift of the whole batch changes nothing.
  Tape tape;
  const Tensor on_tape = tape.variable(x);
  const BatchNormStep taped = batch_norm_train(on_tape, mean, variance);
  CHECK_FALSE(taped.running_mean.on_tape());
  const Tensor g = tape.backward(taped.y, {.cotangent = random_normal(x.shape(), DType::f64, 3)}).of(on_tape);
  CHECK(std::fabs(sum(g).item()) < 1e-12);
}

TEST_CASE("batch_norm scales and shifts the channels of the axis it is given", "[norms]") {
  const Tensor x = random_normal({2, 3, 4}, DType::f64, 1), mean = f64({1, 2, 3}), variance = f64({4, 0.25, 1}), weight = f64({2, -1, 3}),
               bias = f64({0.5, 7, -2});
  const Tensor y = batch_norm(x, mean, variance, {.weight = weight, .bias = bias, .eps = 1e-3});
  for (index_t i = 0; i < 2; ++i)
    for (index_t c = 0; c < 3; ++c)
      for (index_t j = 0; j < 4; ++j)
        CHECK(y.at({i, c, j}) == Approx((x.at({i, c, j}) - mean.at({c})) / std::sqrt(variance.at({c}) + 1e-3) * weight.at({c}) + bias.at({c})).epsilon(1e-12));
  const Tensor last = view::transpose(x, 1, 2);
  CHECK(all_close(batch_norm(last, mean, variance, {.axis = -1, .bias = bias}), view::transpose(batch_norm(x, mean, variance, {.bias = bias}), 1, 2), 1e-14));
  CHECK(all_close(batch_norm_train(last, mean, variance, {.axis = 2}).running_variance, batch_norm_train(x, mean, variance).running_variance, 1e-14));
}

TEST_CASE("norms refuse what they cannot do, and say why", "[norms]") {
  const Tensor x = Tensor::ones({2, 3});
  for (const double eps : {0.0, -1.0, not_a_number, inf, 1e-60}) {
    CHECK_THROWS_AS(layer_norm(x, {.eps = eps}), ValueError);
    CHECK_THROWS_AS(rms_norm(x, {.eps = eps}), ValueError);
    CHECK_THROWS_AS(batch_norm(x, Tensor::ones({3}), Tensor::ones({3}), {.eps = eps}), ValueError);
  }
  CHECK(all_finite(layer_norm(f64({{1, 2}}), {.eps = 1e-60})));
  CHECK_THROWS_AS(layer_norm(x, {.axes = 3}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {.axes = 0}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {.weight = Tensor::ones({2})}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {.weight = Tensor::ones({3}, DType::f64)}), DTypeError);
  CHECK_THROWS_AS(rms_norm(Tensor::ones({2, 0})), ShapeError);
  CHECK(message_of([&] { (void)layer_norm(x, {.bias = Tensor::ones({1, 3})}); }).find("bias has shape (1, 3)") != std::string::npos);
  CHECK(message_of([&] { (void)batch_norm(x, Tensor::ones({3}), Tensor::ones({2})); }).find("variance has shape (2,)") != std::string::npos);
  CHECK_THROWS_AS(batch_norm_train(Tensor::ones({1, 3}), Tensor::ones({3}), Tensor::ones({3})), ShapeError);
  CHECK_THROWS_AS(batch_norm_train(x, Tensor::ones({1}), Tensor::ones({3})), ShapeError);
  CHECK_THROWS_AS(batch_norm_train(x, Tensor::ones({3}), Tensor::scalar(1)), ShapeError);
  CHECK_NOTHROW(batch_norm_train(Tensor::ones({1, 3}), Tensor::ones({3}), Tensor::ones({3}), {.correction = 0}));
  CHECK_THROWS_AS(batch_norm_train(x, Tensor::ones({3}), Tensor::ones({3}), {.momentum = 1.5}), ValueError);
  CHECK_THROWS_AS(l2_normalize(x, 2), IndexError);
}
