// Losses: edges, options, and gradients at extremes.
#include "engine/ops/loss.hpp"

#include <cmath>

#include "engine/autograd/gradcheck.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

constexpr Reduction none = Reduction::none, total = Reduction::sum;

Tensor classes(const std::vector<std::int64_t>& values) { return Tensor::from(values, {static_cast<index_t>(values.size())}); }

// d(sum f(x)) / dx.
Tensor slope(const std::function<Tensor(const Tensor&)>& f, const Tensor& at) {
  return testing::gradient([&](const Tensor& x) { return sum(f(x)); }, at, Tensor::scalar(1, at.dtype()));
}

// Both f(x) and its gradient.
bool finite_with_gradient(const std::function<Tensor(const Tensor&)>& f, const Tensor& at) { return all_finite(f(at)) && all_finite(slope(f, at)); }

}  // namespace

TEST_CASE("cross_entropy_of_equal_logits_of_any_size_is_the_logarithm_of_their_number", "[edge]") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const double value : {0.0, 1e8, -1e8, 3e38}) {
      const Tensor logits = Tensor::full({2, 5}, value, dtype);
      const double expected = std::log(5.0), digits = dtype == DType::f32 ? 1e-7 : 1e-15;
      CHECK(cross_entropy(logits, classes({0, 4})).item() == Approx(expected).epsilon(digits));
      CHECK(cross_entropy(logits, classes({0, 4}), {.label_smoothing = 0.1}).item() == Approx(expected).epsilon(digits));
      CHECK(cross_entropy(logits, Tensor::full({2, 5}, 0.2, dtype)).item() == Approx(expected).epsilon(digits));
      CHECK(finite_with_gradient([](const Tensor& x) { return cross_entropy(x, classes({0, 4})); }, logits));
    }
  CHECK(cross_entropy(Tensor::full({1, 2}, 1e8), classes({1})).item() == Approx(std::log(2.0)).epsilon(1e-7));
}

TEST_CASE("cross_entropy_of_logits_far_apart_has_a_finite_gradient_that_sums_to_zero", "[edge]") {
  for (const std::int64_t target : {0, 1, 2}) {
    const auto f = [&](const Tensor& x) { return cross_entropy(x, classes({target})); };
    const Tensor logits = f64({{-431, 279, 427}});
    const Tensor g = slope(f, logits);
    CHECK(all_finite(g));
    CHECK(std::fabs(sum(g).item()) < 1e-12);
    CHECK(f(logits).item() == Approx(427 - logits.at({0, target})).margin(1e-12));
  }
}

TEST_CASE("losses_and_their_gradients_are_finite_at_extremes", "[edge]") {
  const Tensor large = f64({1e30, -1e30, 1e100, -1e100, 0, 700});
  const Tensor half = Tensor::full({6}, 0.5, DType::f64), ones = Tensor::ones({6}, DType::f64);
  for (const Tensor& target : {half, ones, Tensor::zeros({6}, DType::f64)}) {
    CHECK(finite_with_gradient([&](const Tensor& x) { return bce_with_logits(x, target, {.reduction = none}); }, large));
    CHECK(finite_with_gradient([&](const Tensor& x) { return huber_loss(x, target, {.reduction = none}); }, large));
    CHECK(finite_with_gradient([&](const Tensor& x) { return l1_loss(x, target, {.reduction = none}); }, large));
    CHECK(finite_with_gradient([&](const Tensor& x) { return hinge_loss(x, target, {.reduction = none}); }, large));
    CHECK(finite_with_gradient([&](const Tensor& x) { return mse_loss(x, target, {.reduction = none}); }, large));
  }
  const Tensor single = Tensor::of({3e38, -3e38, 88, -88});
  CHECK(finite_with_gradient([](const Tensor& x) { return bce_with_logits(x, Tensor::of({1, 0, 0, 1}), {.reduction = none}); }, single));
  CHECK(all_finite(slope([](const Tensor& x) { return bce_with_logits(x, Tensor::of({0, 1, 1, 0}), {.reduction = none}); }, single)));
  // Masked logits: no gradient there, the rest as if they were absent.
  const auto masked = [](const Tensor& x) { return cross_entropy(x, classes({0})); };
  CHECK(all_close(slope(masked, f64({{1, -inf, 2}})), f64({{-1 / (1 + std::exp(-1)), 0, 1 / (1 + std::exp(-1))}}), 1e-14));
  CHECK(slope(masked, f64({{1, -inf, 2}})).at({0, 1}) == 0);
}

TEST_CASE("every_reduction_is_what_it_says", "[loss]") {
  const Tensor x = f64({{1, 2}, {4, -3}}), t = f64({{0, 2}, {1, 1}});
  CHECK(equal(mse_loss(x, t, {none}), f64({{1, 0}, {9, 16}})));
  CHECK(mse_loss(x, t, {total}).item() == 26);
  CHECK(mse_loss(x, t).item() == 6.5);
  CHECK(l1_loss(x, t).item() == 2);
  CHECK(equal(huber_loss(x, t, {.reduction = none}), f64({{0.5, 0}, {2.5, 3.5}})));
  CHECK(equal(huber_loss(x, t, {.delta = 3.5, .reduction = none}), f64({{0.5, 0}, {4.5, 3.5 * (4 - 1.75)}})));
  CHECK(equal(hinge_loss(f64({2, 0.5, -1}), f64({1, 1, 1}), {.reduction = none}), f64({0, 0.5, 2})));
  CHECK(equal(hinge_loss(f64({2, 0.5, -1}), f64({1, 1, -1}), {.margin = 3, .reduction = total}), f64(1 + 2.5 + 2)));
}

TEST_CASE("losses_of_nothing_sum_to_zero_and_have_no_mean", "[edge]") {
  const Tensor x = Tensor::zeros({0, 3}, DType::f64), target = Tensor::zeros({0}, DType::i64);
  CHECK(mse_loss(x, x, {total}).item() == 0);
  CHECK(mse_loss(x, x, {none}).shape() == Shape{0, 3});
  CHECK(kl_div(x, x, {total}).item() == 0);
  CHECK(cross_entropy(x, target, {.reduction = total}).item() == 0);
  CHECK(cross_entropy(x, target, {.reduction = none}).shape() == Shape{0});
  CHECK_THROWS_AS(mse_loss(x, x), ShapeError);
  CHECK_THROWS_AS(bce_with_logits(x, x), ShapeError);
  CHECK_THROWS_AS(kl_div(x, x), ShapeError);
  CHECK_THROWS_AS(cross_entropy(x, target), ShapeError);
}

TEST_CASE("losses_never_broadcast_or_mix_dtypes", "[loss]") {
  const Tensor column = Tensor::ones({3, 1}), row = Tensor::ones({3});
  CHECK_THROWS_AS(mse_loss(column, row), ShapeError);
  CHECK_THROWS_AS(l1_loss(column, row), ShapeError);
  CHECK_THROWS_AS(bce_with_logits(row, Tensor::ones({2})), ShapeError);
  CHECK_THROWS_AS(mse_loss(row, Tensor::ones({3}, DType::f64)), DTypeError);
  CHECK_THROWS_AS(mse_loss(Tensor::arange(3), Tensor::arange(3)), DTypeError);
  CHECK_THROWS_AS(bce_with_logits(row, row, {.positive_weight = Tensor::ones({2, 3})}), ShapeError);
  CHECK_THROWS_AS(cross_entropy(Tensor::ones({3, 2}), classes({0, 1})), ShapeError);
  CHECK_THROWS_AS(cross_entropy(Tensor::ones({3, 2}), Tensor::ones({3})), ShapeError);
  CHECK_THROWS_AS(cross_entropy(Tensor::ones({3, 2}), classes({0, 1, 1}), {.class_weights = Tensor::ones({3})}), ShapeError);
  CHECK_THROWS_AS(nll_loss(Tensor::ones({3, 2}), Tensor::ones({3, 2})), DTypeError);
  CHECK_THROWS_AS(huber_loss(row, row, {.delta = Tensor::ones({2})}), ShapeError);
}

TEST_CASE("a_loss_parameter_outside_its_domain_is_refused", "[edge]") {
  const Tensor x = Tensor::ones({2, 2});
  for (const double bad : {0.0, -1.0, not_a_number, inf}) {
    CHECK_THROWS_AS(huber_loss(x, x, {.delta = bad}), ValueError);
    CHECK_THROWS_AS(huber_loss(x, x, {.delta = Tensor::scalar(bad)}), ValueError);
  }
  CHECK_THROWS_AS(hinge_loss(x, x, {.margin = not_a_number}), ValueError);
  for (const double bad : {-0.1, 1.0, not_a_number}) CHECK_THROWS_AS(cross_entropy(x, classes({0, 1}), {.label_smoothing = bad}), ValueError);
  CHECK_THROWS_AS(cross_entropy(x, x, {.ignore_index = 0}), ValueError);
}

TEST_CASE("binary_cross_entropy_has_no_kink_at_zero", "[loss]") {
  for (const double zero : {0.0, -0.0})
    for (const double target : {0.0, 0.25, 1.0}) {
      const Tensor t = Tensor::scalar(target, DType::f64);
      Tape tape;
      const Tensor x = tape.variable(Tensor::scalar(zero, DType::f64));
      const Tensor slope = tape.backward(bce_with_logits(x, t), {.record = true}).of(x);
      CHECK(slope.item() == 0.5 - target);
      CHECK(tape.backward(slope).of(x).item() == 0.25);
    }
  const Tensor x = f64({-3, 0, 2}), t = f64({0.2, 1, 0}), w = f64(2.5), s = sigmoid(x);
  CHECK(all_close(bce_with_logits(x, t, {.reduction = none}), -(t * log(s) + (1.0 - t) * log(1.0 - s)), 1e-13));
  CHECK(all_close(bce_with_logits(x, t, {.positive_weight = w, .reduction = none}), -(w * t * log(s) + (1.0 - t) * log(1.0 - s)), 1e-13));
  // A confident, right prediction costs its tail and not a rounding error.
  CHECK(bce_with_logits(f64({-50}), f64({0})).item() == Approx(std::exp(-50)).epsilon(1e-12));
  CHECK(bce_with_logits(f64({50}), f64({1}), {.positive_weight = f64(3)}).item() == Approx(3 * std::exp(-50)).epsilon(1e-12));
}

TEST_CASE("hubers_loss_is_smooth_at_zero_and_its_slope_meets_at_delta", "[loss]") {
  const auto f = [](const Tensor& x) { return huber_loss(x, Tensor::zeros({5}, DType::f64), {.delta = 2.0, .reduction = total}); };
  CHECK(equal(slope(f, f64({0, 2, -2, 5, -1})), f64({0, 2, -2, 2, -1})));
  Tape tape;
  const Tensor x = tape.variable(f64({0, 1, -1, 3, -3}));
  CHECK(equal(tape.backward(sum(tape.backward(f(x), {.record = true}).of(x))).of(x), f64({1, 1, 1, 0, 0})));
}

TEST_CASE("ignored_targets_count_for_nothing_and_their_rows_are_not_read", "[loss]") {
  const Tensor logits = f64({{1, 2, 3}, {not_a_number, inf, -inf}, {0, -1, 4}}), kept = f64({{1, 2, 3}, {0, -1, 4}});
  const Tensor weights = f64({0.5, 2, 3});
  for (const double smoothing : {0.0, 0.3}) {
    const auto whole = [&](const Tensor& x) { return cross_entropy(x, classes({2, -7, 1}), {.ignore_index = -7, .label_smoothing = smoothing}); };
    const auto part = [&](const Tensor& x) { return cross_entropy(x, classes({2, 1}), {.label_smoothing = smoothing}); };
    CHECK(whole(logits).item() == Approx(part(kept).item()).epsilon(1e-15));
    const Tensor g = slope(whole, logits);
    CHECK(all_close(view::slice(g, 0, {0, 3, 2}), slope(part, kept), 1e-14));
    CHECK(equal(view::select(g, 0, 1), Tensor::zeros({3}, DType::f64)));
    const auto by_weight = [&](const Tensor& w) {
      return cross_entropy(logits, classes({2, -7, 1}), {.ignore_index = -7, .label_smoothing = smoothing, .class_weights = w});
    };
    CHECK(all_finite(slope(by_weight, weights)));
  }
  CHECK(equal(view::select(nll_loss(logits, classes({2, 5, 1}), {.ignore_index = 5, .reduction = none}), 0, 1), f64(0)));
  // A class of the ignored index is ignored too.
  CHECK(cross_entropy(kept, classes({2, 1}), {.ignore_index = 2}).item() == cross_entropy(f64({{0, -1, 4}}), classes({1})).item());
}

TEST_CASE("when_all_targets_are_ignored_the_sum_is_zero_and_the_mean_an_error", "[edge]") {
  const Tensor logits = f64({{1, 2}, {3, 4}}), target = classes({-1, -1});
  const auto f = [&](const Tensor& x) { return cross_entropy(x, target, {.ignore_index = -1, .reduction = total}); };
  CHECK(f(logits).item() == 0);
  CHECK(equal(slope(f, logits), Tensor::zeros({2, 2}, DType::f64)));
  CHECK_THROWS_AS(cross_entropy(logits, target, {.ignore_index = -1}), ValueError);
  CHECK_THROWS_AS(nll_loss(logits, target, {.ignore_index = -1}), ValueError);
}

TEST_CASE("targets_out_of_range_or_negative_are_named", "[edge]") {
  for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{-1}, std::int64_t{-100}}) {
    try {
      (void)cross_entropy(Tensor::ones({2, 3}), classes({0, bad}), {.ignore_index = 7});
      FAIL("no error");
    } catch (const IndexError& error) {
      CHECK(error.problem().find("target " + std::to_string(bad)) != std::string::npos);
      CHECK(error.problem().find("3 classes") != std::string::npos);
    }
  }
}

TEST_CASE("class_weights_and_label_smoothing_are_the_formula", "[loss]") {
  const Tensor logits = random_normal({3, 4}, DType::f64, 1), w = f64({0.5, 1, 2, 0}), log_p = log_softmax(logits);
  const std::vector<std::int64_t> target{2, 0, 1};
  const double epsilon = 0.2;
  double plain = 0, smooth = 0, weighted = 0, weighted_smooth = 0, weights = 0;
  for (index_t i = 0; i < 3; ++i) {
    const auto t = target[static_cast<std::size_t>(i)];
    double all = 0, all_weighted = 0;
    for (index_t c = 0; c < 4; ++c) {
      all -= log_p.at({i, c}) / 4;
      all_weighted -= w.at({c}) * log_p.at({i, c}) / 4;
    }
    plain -= log_p.at({i, t});
    smooth += -(1 - epsilon) * log_p.at({i, t}) + epsilon * all;
    weighted -= w.at({t}) * log_p.at({i, t});
    weighted_smooth += -(1 - epsilon) * w.at({t}) * log_p.at({i, t}) + epsilon * all_weighted;
    weights += w.at({t});
  }
  const Tensor t = classes(target);
  CHECK(cross_entropy(logits, t).item() == Approx(plain / 3).epsilon(1e-14));
  CHECK(cross_entropy(logits, t, {.label_smoothing = epsilon}).item() == Approx(smooth / 3).epsilon(1e-14));
  CHECK(cross_entropy(logits, t, {.class_weights = w}).item() == Approx(weighted / weights).epsilon(1e-14));
  CHECK(cross_entropy(logits, t, {.class_weights = w, .reduction = total}).item() == Approx(weighted).epsilon(1e-14));
  CHECK(cross_entropy(logits, t, {.label_smoothing = epsilon, .class_weights = w}).item() == Approx(weighted_smooth / weights).epsilon(1e-14));
  CHECK(nll_loss(log_p, t, {.class_weights = w}).item() == Approx(weighted / weights).epsilon(1e-14));
  // Soft labels that name one class are that class.
  const Tensor labels = one_hot(t, 4, DType::f64);
  CHECK(cross_entropy(logits, labels).item() == Approx(plain / 3).epsilon(1e-14));
  CHECK(cross_entropy(logits, labels, {.label_smoothing = epsilon}).item() == Approx(smooth / 3).epsilon(1e-14));
  CHECK(cross_entropy(logits, labels, {.class_weights = w}).item() == Approx(weighted / 3).epsilon(1e-14));
}

TEST_CASE("ignored_targets_do_not_weigh_in_the_mean", "[loss]") {
  const Tensor logits = random_normal({4, 3}, DType::f64, 2), w = f64({0.5, 2, 3}), kept = index_select(logits, 0, classes({0, 2}));
  for (const Reduction reduction : {total, Reduction::mean})
    for (const double smoothing : {0.0, 0.2}) {
      const Tensor whole =
          cross_entropy(logits, classes({2, 9, 1, 9}), {.ignore_index = 9, .label_smoothing = smoothing, .class_weights = w, .reduction = reduction});
      const Tensor part = cross_entropy(kept, classes({2, 1}), {.label_smoothing = smoothing, .class_weights = w, .reduction = reduction});
      CHECK(whole.item() == Approx(part.item()).epsilon(1e-14));
    }
}

TEST_CASE("classes_lie_along_the_last_axis_whatever_the_rank", "[loss]") {
  const Tensor logits = random_normal({2, 3, 5}, DType::f64, 2), flat = reshape(logits, {6, 5}), labels = softmax(random_normal({2, 3, 5}, DType::f64, 3));
  const Tensor target = Tensor::from(std::vector<std::int64_t>{0, 4, 2, -1, 3, 1}, {2, 3}), flat_target = reshape(target, {6});
  const CrossEntropyOptions smoothed{.ignore_index = -1, .label_smoothing = 0.2};
  CHECK(cross_entropy(logits, target, smoothed).item() == Approx(cross_entropy(flat, flat_target, smoothed).item()).epsilon(1e-14));
  const CrossEntropyOptions soft{.label_smoothing = 0.2};
  CHECK(cross_entropy(logits, labels, soft).item() == Approx(cross_entropy(flat, reshape(labels, {6, 5}), soft).item()).epsilon(1e-14));
  CHECK(cross_entropy(logits, labels).item() == Approx(cross_entropy(flat, reshape(labels, {6, 5})).item()).epsilon(1e-14));
  CHECK(kl_div(log_softmax(logits), labels).item() == Approx(kl_div(log_softmax(flat), reshape(labels, {6, 5})).item()).epsilon(1e-14));
}

TEST_CASE("what_has_no_weight_costs_nothing_however_improbable", "[edge]") {
  // A class masked out by -inf and labelled 0, and one whose weight is 0.
  const Tensor logits = f64({{0, 0, -inf}}), labels = f64({{0.25, 0.75, 0}});
  const auto f = [&](const Tensor& x) { return cross_entropy(x, labels); };
  CHECK(f(logits).item() == Approx(std::log(2.0)).epsilon(1e-15));
  CHECK(equal(slope(f, logits), f64({{0.25, -0.25, 0}})));
  CHECK(all_finite(slope([&](const Tensor& t) { return cross_entropy(logits, t); }, labels)));
  CHECK(cross_entropy(logits, classes({2}), {.class_weights = f64({1, 1, 0}), .reduction = total}).item() == 0);
  CHECK(cross_entropy(logits, classes({2})).item() == inf);
  // 0 ln 0 = 0, and p = q costs nothing.
  const Tensor p = f64({{0.5, 0.5, 0}, {0, 1, 0}}), log_q = f64({{std::log(0.5), std::log(0.5), -inf}, {std::log(0.25), std::log(0.75), -inf}});
  CHECK(all_close(kl_div(log_q, p, {none}), f64({0, -std::log(0.75)}), 1e-15, 1e-16));
  CHECK(kl_div(log_q, p).item() == Approx(-std::log(0.75) / 2));
  // The slope of p ln p at 0 is taken as 0.
  const Tensor q = f64({{0.5, 0.25, 0.25}}), descent = slope([&](const Tensor&t) { return kl_div(log(q), t); }, f64({{1, 0, 0}}));
  CHECK(all_close(descent, f64({{1 + std::log(2.0), std::log(4.0), std::log(4.0)}}), 1e-15));
  CHECK(all_finite(slope([&](const Tensor& t) { return kl_div(log_q, t); }, p)));
  CHECK(equal(slope([&](const Tensor& l) { return kl_div(l, p, {total}); }, log_q), -p));
  CHECK(kl_div(f64({-inf, 0}), f64({0.5, 0.5})).item() == inf);
  CHECK(std::isnan(kl_div(f64({not_a_number, 0}), f64({0, 1})).item()));
}

TEST_CASE("a_replay_gives_a_loss_new_targets", "[loss]") {
  Tape tape;
  const Tensor logits = tape.variable(random_normal({3, 4}, DType::f64, 1)), target = tape.input(classes({1, -1, 3}));
  const Tensor loss = cross_entropy(logits, target, {.ignore_index = -1});
  const Tensor other = classes({-1, 0, 2});
  tape.set(target, other);
  tape.replay();
  CHECK(tape.value(loss).item() == cross_entropy(logits.detached(), other, {.ignore_index = -1}).item());
}
