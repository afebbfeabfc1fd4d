#include "optim/clip.hpp"

#include <cmath>

#include "engine/autograd/gradcheck.hpp"
#include "engine/core/events.hpp"
#include "engine/core/parallel.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/tensor/view.hpp"
#include "tests/catch.hpp"

using namespace gradus;

namespace {

GradientList three_four() { return {Tensor::of({3, 0}, DType::f64), Tensor::of({{0}, {4}})}; }

}  // namespace

TEST_CASE("clip_by_norm_scales_all_gradients_to_the_joint_norm", "[clip]") {
  GradientList gradients = three_four();
  const Tensor before = gradients[0];
  CHECK(clip_by_norm(gradients, 1) == 5);
  CHECK(all_close(gradients[0], Tensor::of({0.6, 0}, DType::f64), 1e-15));
  CHECK(all_close(gradients[1], Tensor::of({{0}, {0.8}}), 1e-7));
  CHECK(equal(before, Tensor::of({3, 0}, DType::f64)));
  CHECK(clip_by_norm(gradients, 2) == Approx(1));
  CHECK(all_close(gradients[0], Tensor::of({0.6, 0}, DType::f64), 1e-15));
}

TEST_CASE("clip_by_norm_leaves_gradients_within_the_limit_and_zero_ones_alone", "[clip]") {
  for (const double limit : {5.0, 6.0, HUGE_VAL}) {
    GradientList gradients = three_four();
    const GradientList same = gradients;
    CHECK(clip_by_norm(gradients, limit) == 5);
    for (std::size_t i = 0; i < 2; ++i) CHECK(gradients[i].buffer().same_as(same[i].buffer()));
  }
  for (const double limit : {0.0, 1.0}) {
    GradientList zeros{Tensor::zeros({3}), Tensor::zeros({0, 2}), Tensor::zeros({})};
    CHECK(clip_by_norm(zeros, limit) == 0);
    CHECK(equal(zeros[0], Tensor::zeros({3})));
  }
  GradientList none;
  CHECK(clip_by_norm(none, 1) == 0);
  GradientList to_zero = three_four();
  CHECK(clip_by_norm(to_zero, 0) == 5);
  CHECK(equal(to_zero[1], Tensor::zeros({2, 1})));
}

TEST_CASE("clip_by_norm_refuses_or_counts_a_norm_that_is_not_finite", "[clip]") {
  for (const double bad : {HUGE_VAL, -HUGE_VAL, std::nan("")})
    for (const std::size_t place : {0U, 1U, 2U}) {
      GradientList gradients{Tensor::ones({2}), Tensor::ones({1}), Tensor::ones({3}, DType::f64)};
      gradients[place] = copy(gradients[place]);
      gradients[place].set({0}, bad);
      const GradientList same = gradients;
      try {
        clip_by_norm(gradients, 1);
        FAIL("no error");
      } catch (const ValueError& error) {
        CHECK(error.problem().find("that of parameter " + std::to_string(place)) != std::string::npos);
      }
      const std::int64_t before = event_count(Event::skipped_step);
      CHECK_FALSE(std::isfinite(clip_by_norm(gradients, 1, NonFinite::skip)));
      CHECK(event_count(Event::skipped_step) == before + 1);
      for (std::size_t i = 0; i < 3; ++i) CHECK(bit_equal(gradients[i], same[i]));
    }
}

TEST_CASE("clip_by_norm_refuses_a_negative_limit_before_any_work", "[clip]") {
  for (const double limit : {-1.0, -1e-300, -HUGE_VAL, std::nan("")}) {
    GradientList gradients = three_four();
    CHECK_THROWS_AS(clip_by_norm(gradients, limit), ValueError);
    CHECK_THROWS_AS(clip_by_value(gradients, limit), ValueError);
    CHECK(equal(gradients[0], Tensor::of({3, 0}, DType::f64)));
  }
}

TEST_CASE("clip_by_norm_takes_finite_gradients_whose_squares_overflow", "[clip]") {
  GradientList doubles{Tensor::of({3e300, 0}, DType::f64), Tensor::of({4e300}, DType::f64)};
  CHECK(clip_by_norm(doubles, 10) == Approx(5e300));
  CHECK(all_close(doubles[0], Tensor::of({6, 0}, DType::f64), 1e-14));
  GradientList floats{Tensor::of({3e38, 0}), Tensor::of({1e-3})};
  CHECK(clip_by_norm(floats, 1) == Approx(3e38));
  CHECK(all_close(floats[0], Tensor::of({1, 0})));
}

TEST_CASE("clip_by_norm_gives_the_same_bits_for_any_threads_and_layout", "[clip]") {
  const Tensor g = random_normal({300, 701}, DType::f32, 5);
  double expected = 0;
  for (const float value : g.to_vector<float>()) expected += static_cast<double>(value) * static_cast<double>(value);
  const int threads = thread_count();
  std::vector<double> norms;
  for (const int count : {1, 2, 7}) {
    set_thread_count(count);
    GradientList gradients{g}, turned{view::transpose(copy(view::transpose(g, 0, 1)), 0, 1)};
    norms.push_back(clip_by_norm(gradients, 1));
    norms.push_back(clip_by_norm(turned, 1));
    CHECK(bit_equal(gradients[0], turned[0]));
  }
  set_thread_count(threads);
  for (const double norm : norms) CHECK(norm == norms[0]);
  CHECK(norms[0] == Approx(std::sqrt(expected)).epsilon(1e-12));
}

TEST_CASE("clip_by_value_clamps_every_element_and_keeps_nan", "[clip]") {
  const double nan = std::nan("");
  GradientList gradients{Tensor::of({-3, -0.5, 0, 0.5, 3, nan}), Tensor::of({HUGE_VAL, -HUGE_VAL}, DType::f64)};
  clip_by_value(gradients, 0.5);
  CHECK(equal(gradients[0], Tensor::of({-0.5, -0.5, 0, 0.5, 0.5, nan}), true));
  CHECK(equal(gradients[1], Tensor::of({0.5, -0.5}, DType::f64)));
  clip_by_value(gradients, 0);
  CHECK(equal(gradients[0], Tensor::of({0, 0, 0, 0, 0, nan}), true));
}

TEST_CASE("clipped gradients of a backward pass update the parameters, even when two share storage", "[clip]") {
  ParameterSet parameters;
  parameters.add("a", Tensor::zeros({2}, DType::f64));
  parameters.add("b", Tensor::zeros({2}, DType::f64));
  Tape tape;
  const WatchedParameters watched = tape.watch(parameters);
  GradientList gradients = gradients_of(watched, tape.backward(sum(Tensor::of({3, 4}, DType::f64) * (watched[0] + watched[1]))));
  CHECK(clip_by_norm(gradients, 1) == Approx(std::sqrt(50)));
  make_sgd({1.0})->step(parameters, gradients);
  const Tensor want = Tensor::of({-3 / std::sqrt(50), -4 / std::sqrt(50)}, DType::f64);
  CHECK(all_close(parameters[0].value, want, 1e-14));
  CHECK(all_close(parameters[1].value, want, 1e-14));
}
