// Faults that real libraries had, each as a test of the right behaviour.
#include <cmath>
#include <limits>
#include <thread>

#include "engine/core/events.hpp"
#include "engine/core/parallel.hpp"
#include "engine/ops/distance.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {}  // namespace

TEST_CASE("softmax_row_all_masked_gives_zero", "[edge]") {
  const Tensor x = f64({{1, 2, 3, 4}, {-inf, -inf, -inf, -inf}, {0, -1, 5, 2}});
  const Tensor others = f64({{1, 2, 3, 4}, {0, -1, 5, 2}});
  for (const bool expand : {false, true}) {
    Tape tape({.expand = expand});
    const Tensor on_tape = tape.variable(x);
    const Tensor y = softmax(on_tape);
    CHECK(equal(view::select(y.detached(), 0, 1), Tensor::zeros({4}, DType::f64)));
    const Tensor g = tape.backward(y, {.cotangent = random_normal({3, 4}, DType::f64, 3)}).of(on_tape);
    CHECK(all_finite(g));
    CHECK(equal(view::select(g, 0, 1), Tensor::zeros({4}, DType::f64)));
    if (!expand) CHECK(bit_equal(view::slice(y.detached(), 0, {0, 3, 2}), softmax(others)));
  }
}

TEST_CASE("masked_entries_get_no_gradient_and_the_rest_is_the_truncated_row", "[edge]") {
  const Tensor whole = f64({{1, -inf, 3, -inf}}), kept = f64({{1, 3}});
  const Tensor cotangent = f64({{0.3, 100, -2, inf}});
  const Tensor g = gradient([](const Tensor& x) { return softmax(x); }, whole, cotangent);
  const Tensor expected = gradient([](const Tensor& x) { return softmax(x); }, kept, f64({{0.3, -2}}));
  CHECK(g.at({0, 1}) == 0);
  CHECK(g.at({0, 3}) == 0);
  CHECK(g.at({0, 0}) == Approx(expected.at({0, 0})).epsilon(1e-14));
  CHECK(g.at({0, 2}) == Approx(expected.at({0, 1})).epsilon(1e-14));
}

TEST_CASE("logsumexp_of_nothing_but_minus_infinity", "[edge]") {
  const Tensor x = f64({-inf, -inf});
  const auto f = [](const Tensor& t) { return logsumexp(t); };
  CHECK(logsumexp(x).item() == -inf);
  CHECK(equal(gradient(f, x), Tensor::zeros({2}, DType::f64)));
  CHECK(equal(gradient([&](const Tensor& t) { return exp(f(t)); }, x), Tensor::zeros({2}, DType::f64)));
  CHECK(logsumexp(Tensor::zeros({0}, DType::f64)).item() == -inf);
}

TEST_CASE("equal_logits_of_any_size_give_the_logarithm_of_their_number", "[edge]") {
  for (const double value : {0.0, 1e8, -1e8, 3e38}) CHECK(log_softmax(Tensor::full({5}, value, DType::f64)).at({2}) == Approx(-std::log(5.0)).epsilon(1e-15));
  const Tensor g = gradient([](const Tensor& x) { return log_softmax(x); }, f64({-431, 279, 427}));
  CHECK(all_finite(g));
  CHECK(std::fabs(sum(g).item()) < 1e-12);
}

TEST_CASE("temperature_acts_before_the_exponential", "[edge]") {
  const Tensor x = random_normal({4, 6}, DType::f64, 1);
  double entropy = -1;
  for (const double temperature : {0.1, 0.5, 2.0, 10.0}) {
    const Tensor y = softmax(x, {.inverse_temperature = 1 / temperature});
    CHECK(all_close(y, softmax(x / temperature), 1e-13));
    const double now = -sum(y * log(y)).item();
    CHECK(now > entropy);
    entropy = now;
  }
  // As a tensor it gives the same weights, and has a gradient of its own.
  CHECK(all_close(softmax(x, {.inverse_temperature = Tensor::scalar(3, DType::f64)}), softmax(x, {.inverse_temperature = 3.0}), 1e-13));
  const Tensor masked = f64({{0.5, -inf, 1}});
  const Tensor d_beta = gradient([&](const Tensor& beta) { return softmax(masked, {.inverse_temperature = beta}); }, Tensor::scalar(2, DType::f64));
  CHECK(std::isfinite(d_beta.item()));
}

TEST_CASE("a_temperature_that_is_not_positive_and_finite_is_refused", "[edge]") {
  const Tensor x = Tensor::ones({2, 2});
  for (const double beta : {0.0, -1.0, not_a_number, inf}) {
    CHECK_THROWS_AS(softmax(x, {.inverse_temperature = beta}), ValueError);
    CHECK_THROWS_AS(softmax(x, {.inverse_temperature = Tensor::scalar(beta)}), ValueError);
  }
}

TEST_CASE("squared_distances_keep_their_digits_and_are_never_negative", "[edge]") {
  Tensor a = random_normal({40, 3}, DType::f32, 1) + 1e5, b = random_normal({30, 3}, DType::f32, 2) + 1e5;
  const Tensor distance = squared_distance(a, b);
  const Tensor reference = squared_distance(cast(a, DType::f64), cast(b, DType::f64));
  CHECK(all_close(cast(distance, DType::f64), reference, 1e-3));
  const Tensor self = squared_distance(a, a);
  for (index_t i = 0; i < 40; ++i) CHECK(self.at({i, i}) == 0);
  CHECK(min(self).item() >= 0);
  const Tensor g = gradient([&](const Tensor& x) { return squared_distance(x, x); }, random_normal({5, 2}, DType::f64, 3));
  CHECK(all_finite(g));
  CHECK(equal(gradient([](const Tensor& x) { return squared_distance(x, x.detached()); }, f64({{1, 2}})), Tensor::zeros({1, 2}, DType::f64)));
}

TEST_CASE("the_branch_not_taken_is_not_seen", "[edge]") {
  const auto f = [](const Tensor& x) { return where(equal_to(x, 0.0), scalar_like(x, 0), x * sqrt(x)); };
  CHECK(gradient(f, f64({0.0}), f64({1})).item() == 0);
  const auto norm = [](const Tensor& x) { return maximum(sqrt(sum(square(x))), scalar_like(x, 1e-10)); };
  CHECK(equal(gradient(norm, f64({0, 0}), f64(1)), Tensor::zeros({2}, DType::f64)));
}

TEST_CASE("powers_follow_the_table", "[edge]") {
  const std::vector<double> bases{-2, -0.0, 0, 1, inf}, exponents{-1, 0, 0.5, 1, 2, 3};
  for (const double base : bases)
    for (const double exponent : exponents) {
      const double got = pow(Tensor::scalar(base, DType::f64), Tensor::scalar(exponent, DType::f64)).item(), want = std::pow(base, exponent);
      INFO(base << "^" << exponent);
      CHECK(((std::isnan(got) && std::isnan(want)) || (got == want && std::signbit(got) == std::signbit(want))));
    }
  const auto d_base = [](double base, double exponent) {
    return gradient([&](const Tensor& x) { return pow(x, exponent); }, Tensor::scalar(base, DType::f64), Tensor::scalar(1, DType::f64)).item();
  };
  const auto d_exponent = [](double base, double exponent) {
    return gradient([&](const Tensor& x) { return pow(Tensor::scalar(base, DType::f64), x); }, Tensor::scalar(exponent, DType::f64),
                    Tensor::scalar(1, DType::f64))
        .item();
  };
  CHECK(d_base(0, 2) == 0);
  CHECK(d_base(0, 0) == 0);
  CHECK(d_base(-2, 0) == 0);
  CHECK(d_base(-2, 3) == Approx(12).epsilon(1e-14));
  CHECK(d_base(0, 1) == 1);
  for (const double b : {0.0, 0.5, 1.0, 3.0}) CHECK(d_exponent(0, b) == 0);
  CHECK(d_exponent(2, 3) == Approx(8 * std::log(2.0)).epsilon(1e-14));
}

TEST_CASE("ties_share_the_gradient_evenly_however_many_they_are", "[edge]") {
  for (const index_t n : {1, 2, 70000}) {
    const Tensor g = gradient([](const Tensor& x) { return max(x); }, Tensor::full({n}, 3, DType::f32), Tensor::scalar(2));
    CHECK(sum(g).item() == Approx(2).epsilon(1e-5));
    CHECK(g.at({0}) == g.at({n - 1}));
  }
  CHECK(argmax(f64({1, 5, 5}), 0).item() == 1);
  CHECK(argmin(f64({5, 1, 1}), 0).item() == 1);
  CHECK(argmax(f64({1, not_a_number, 5}), 0).item() == 1);
}

TEST_CASE("nan_is_seen_at_every_index_of_every_length", "[edge]") {
  for (index_t n = 1; n <= 67; ++n)
    for (index_t at = 0; at < n; ++at) {
      Tensor x = Tensor::ones({n});
      x.set({at}, not_a_number);
      const bool seen = std::isnan(max(x).item()) && std::isnan(min(x).item()) && std::isnan(sum(x).item()) && std::isnan(relu(x).at({at})) &&
                        std::isnan(maximum(x, Tensor::zeros({n})).at({at})) && std::isnan(minimum(Tensor::zeros({n}), x).at({at})) &&
                        argmax(x, 0).item() == static_cast<double>(at) && std::isnan(softmax(x).at({0}));
      if (!seen) FAIL("hidden at index " << at << " of " << n);
    }
}

TEST_CASE("repeated_indices_accumulate_and_unselected_rows_get_nothing", "[edge]") {
  const Tensor index = Tensor::from(std::vector<std::int64_t>{0, 0}, {2});
  CHECK(equal(gradient([&](const Tensor& x) { return gather(x, 0, index); }, f64({5, 6, 7}), f64({0.25, 0.5})), f64({0.75, 0, 0})));
  const Tensor g = gradient([&](const Tensor& table) { return embedding(table, index); }, Tensor::ones({3, 2}, DType::f64), Tensor::ones({2, 2}, DType::f64));
  CHECK(equal(g, f64({{2, 2}, {0, 0}, {0, 0}})));
}

TEST_CASE("indices_out_of_range_or_negative_are_named", "[edge]") {
  const Tensor x = Tensor::ones({3, 2});
  for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{-1}}) {
    const Tensor index = Tensor::from(std::vector<std::int64_t>{0, bad}, {2});
    try {
      (void)index_select(x, 0, index);
      FAIL("no error");
    } catch (const IndexError& error) {
      CHECK(error.problem().find(std::to_string(bad)) != std::string::npos);
      CHECK(error.problem().find("size 3") != std::string::npos);
    }
    CHECK_THROWS_AS(gather(Tensor::ones({3}), 0, index), IndexError);
    CHECK_THROWS_AS(scatter_add(Tensor::ones({3}), 0, index, Tensor::ones({2})), IndexError);
    CHECK_THROWS_AS(one_hot(index, 3), IndexError);
  }
}

TEST_CASE("linear_ops_satisfy_the_adjoint_identity", "[edge]") {
  const Tensor index = Tensor::from(std::vector<std::int64_t>{2, 0, 2, 1}, {4});
  const Tensor matrix = random_normal({5, 4}, DType::f64, 9);
  const std::vector<std::function<Tensor(const Tensor&)>> linear{[&](const Tensor& x) { return index_select(x, 0, index); },
                                                                 [&](const Tensor& x) { return matmul(x, matrix); },
                                                                 [](const Tensor& x) {
                                                                   return slice(x, 1, {1, Slice::none, 2});
                                                                 },
                                                                 [](const Tensor& x) { return pad(flip(x, 0), 1, 1, 2); },
                                                                 [](const Tensor& x) {
                                                                   return sum(permute(expand(x, {2, 3, 5}), {2, 0, 1}), {.axes = {1}});
                                                                 },
                                                                 [](const Tensor& x) {
                                                                   return concat(std::vector<Tensor>{x, x * 2.0}, 1);
                                                                 },
                                                                 [](const Tensor& x) {
                                                                   return mean(reshape(x, {5, 3}), {.axes = {0}});
                                                                 }};
  const Tensor x = random_normal({3, 5}, DType::f64, 1);
  for (std::size_t i = 0; i < linear.size(); ++i) {
    const Tensor y = linear[i](x), cotangent = random_normal(y.shape(), DType::f64, 2);
    const double left = sum(y * cotangent).item(), right = sum(x * gradient(linear[i], x, cotangent)).item();
    INFO("map " << i);
    CHECK(left == Approx(right).epsilon(1e-12));
  }
}

TEST_CASE("the_gradient_of_a_sum_is_the_sum_of_gradients", "[edge]") {
  const Tensor at = random_normal({6}, DType::f64, 1), c = Tensor::scalar(1, DType::f64);
  const auto f = [](const Tensor& x) { return max(x); };
  const auto g = [](const Tensor& x) { return sum(x * tanh(x)); };
  CHECK(all_close(gradient([&](const Tensor& x) { return f(x) + g(x); }, at, c), gradient(f, at, c) + gradient(g, at, c), 1e-14));
}

TEST_CASE("reductions_of_empty_tensors", "[edge]") {
  for (const Shape& shape : {Shape{0, 4}, Shape{4, 0}, Shape{0, 0}})
    for (index_t axis = 0; axis < 2; ++axis) {
      const Tensor x = Tensor::zeros(shape, DType::f64);
      const bool result_is_empty = shape[static_cast<int>(1 - axis)] == 0;
      CHECK(equal(sum(x, {.axes = {axis}}), Tensor::zeros({shape[static_cast<int>(1 - axis)]}, DType::f64)));
      if (result_is_empty) {
        CHECK(max(x, {.axes = {axis}}).numel() == 0);
        CHECK(mean(x, {.axes = {axis}}).numel() == 0);
        CHECK(argmin(x, axis).numel() == 0);
      } else {
        CHECK_THROWS_AS(max(x, {.axes = {axis}}), ShapeError);
        CHECK_THROWS_AS(min(x, {.axes = {axis}}), ShapeError);
        CHECK_THROWS_AS(mean(x, {.axes = {axis}}), ShapeError);
        CHECK_THROWS_AS(argmax(x, axis), ShapeError);
      }
      CHECK(gradient([&](const Tensor& t) { return sum(t, {.axes = {axis}}); }, x).shape() == shape);
    }
  CHECK(sum(Tensor::zeros({0})).item() == 0);
}

TEST_CASE("exponential_tanh_and_error_function_far_out", "[edge]") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = Tensor::of({0.0, -0.0, 20, -20, 89, -89, 1e30, -1e30, inf, -inf, not_a_number}, dtype);
    const auto values = [&](const Tensor& t) { return cast(t, DType::f64).to_vector<double>(); };
    const auto t = values(tanh(x)), e = values(erf(x));
    CHECK(t[0] == 0);
    CHECK(std::signbit(t[1]));
    for (const std::size_t i : {4u, 6u, 8u}) CHECK((t[i] == 1 && t[i + 1] == -1 && e[i] == 1 && e[i + 1] == -1));
    CHECK((std::isnan(t[10]) && std::isnan(e[10])));
    const auto g = values(gradient([](const Tensor& v) { return tanh(v); }, x, Tensor::ones({11}, dtype)));
    for (const std::size_t i : {4u, 5u, 6u, 7u, 8u, 9u}) CHECK(g[i] == 0);
    CHECK(values(exp(x))[8] == inf);
    CHECK(values(exp(x))[9] == 0);
  }
}

TEST_CASE("long_sums_keep_their_digits_and_their_bits_on_any_number_of_threads", "[edge][parallel]") {
  const Tensor tenths = Tensor::full({1000000}, 0.1);
  CHECK(std::fabs(sum(tenths).item() / (1e6 * static_cast<double>(0.1f)) - 1) < 1e-6);
  const Tensor x = random_normal({300000}, DType::f32, 4), grid = reshape(x, {3000, 100});
  const int before = thread_count();
  set_thread_count(1);
  const Tensor whole = sum(x), columns = sum(grid, {.axes = {0}}), rows = sum(grid, {.axes = {1}});
  for (const int threads : {2, 7}) {
    set_thread_count(threads);
    CHECK(bit_equal(sum(x), whole));
    CHECK(bit_equal(sum(grid, {.axes = {0}}), columns));
    CHECK(bit_equal(sum(grid, {.axes = {1}}), rows));
  }
  set_thread_count(before);
  // The tree follows the index, not the layout.
  CHECK(bit_equal(sum(copy(transpose(grid)), {.axes = {1}}), columns));
}

TEST_CASE("infinite_factors_are_not_skipped_by_zeros", "[edge]") {
  const Tensor a = f64({{0, 1}, {0, 0}}), b = f64({{inf, 1}, {2, 3}});
  const Tensor c = matmul(a, b);
  CHECK(std::isnan(c.at({0, 0})));
  CHECK(std::isnan(c.at({1, 0})));
  CHECK(c.at({0, 1}) == 3);
}

TEST_CASE("a_row_of_linear_weights_that_sums_to_zero_is_zero_and_counted", "[edge]") {
  const std::int64_t before = event_count(Event::zero_weight_row);
  const Tensor x = f64({{1, -1}, {1, 3}});
  CHECK(equal(normalized_linear(x), f64({{0, 0}, {0.25, 0.75}})));
  CHECK(event_count(Event::zero_weight_row) == before + 1);
  CHECK(equal(view::select(gradient([](const Tensor& t) { return normalized_linear(t); }, x), 0, 0), Tensor::zeros({2}, DType::f64)));
}

TEST_CASE("hardmax_is_uniform_over_ties_and_has_no_gradient", "[edge]") {
  CHECK(equal(hardmax(f64({{1, 1 + 1e-10, 0}, {2, 5, 5.1}})), f64({{0.5, 0.5, 0}, {0, 0, 1}})));
  CHECK(equal(hardmax(f64({{-inf, -inf}})), f64({{0, 0}})));
  CHECK(std::isnan(hardmax(f64({{1, not_a_number}})).at({0, 0})));
  Tape tape;
  const Tensor x = tape.variable(f64({1, 2}));
  CHECK(equal(tape.backward(sum(hardmax(x) * x)).of(x), f64({0, 1})));
}

TEST_CASE("softmax_weights_are_never_denormal", "[edge]") {
  const Tensor y = softmax(Tensor::of({0, -80, -87, -88, -95, -103, -200}));
  for (const float v : y.to_vector<float>()) CHECK((v == 0 || v >= std::numeric_limits<float>::min()));
  CHECK(std::isnan(softmax(Tensor::of({1.0, inf})).at({0})));
}

TEST_CASE("dtypes_are_not_mixed_and_a_number_takes_the_tensors", "[edge]") {
  CHECK_THROWS_AS(Tensor::ones({2}) + Tensor::ones({2}, DType::f64), DTypeError);
  CHECK_THROWS_AS(matmul(Tensor::ones({2, 2}), Tensor::ones({2, 2}, DType::f64)), DTypeError);
  CHECK((Tensor::ones({2}, DType::f64) * 2.0).dtype() == DType::f64);
  CHECK((Tensor::arange(3) + 1.0).dtype() == DType::i64);
  CHECK_THROWS_AS(exp(Tensor::arange(3)), DTypeError);
  CHECK_THROWS_AS(matmul(Tensor::ones({2, 3}), Tensor::ones({2, 3})), ShapeError);
  CHECK_THROWS_AS(Tensor::ones({2, 3}) + Tensor::ones({2, 4}), ShapeError);
}

TEST_CASE("rank_0_is_ordinary", "[edge]") {
  const auto f = [](const Tensor& x) { return exp(mean(x)) * sum(x, {.axes = {1}}); };
  CHECK(gradcheck([&](std::span<const Tensor> x) { return f(x[0]); }, std::vector<Tensor>{random_normal({3, 2}, DType::f64, 1)}).passed);
}

TEST_CASE("two_trainings_in_parallel_equal_the_same_in_sequence", "[edge][parallel]") {
  const auto train = [](std::uint64_t seed) {
    Tensor w = random_normal({8, 4}, DType::f32, seed);
    for (int step = 0; step < 20; ++step) {
      Tape tape;
      const Tensor v = tape.variable(w);
      const Tensor x = random_normal({32, 8}, DType::f32, seed, static_cast<std::uint64_t>(step));
      const Tensor loss = mean(square(tanh(matmul(x, v)) - 0.5));
      w = (w - 0.1 * tape.backward(loss).of(v)).detached();
    }
    return w;
  };
  const Tensor first = train(1), second = train(2);
  Tensor together[2];
  std::thread a([&] { together[0] = train(1); }), b([&] { together[1] = train(2); });
  a.join();
  b.join();
  CHECK(bit_equal(together[0], first));
  CHECK(bit_equal(together[1], second));
}
