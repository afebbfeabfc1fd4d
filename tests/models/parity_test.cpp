// The sparse-XOR transformer: closed forms, one long step, the standard layer that equals it, and what fails.
#include <cmath>

#include "engine/autograd/gradcheck.hpp"
#include "engine/ops/bits.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/tensor/view.hpp"
#include "models/parity/baseline.hpp"
#include "models/parity/train.hpp"
#include "models/parity/transformer.hpp"
#include "tests/catch.hpp"
#include "tests/use_threads.hpp"

using namespace gradus;
using namespace gradus::parity;

namespace {

const Attention every_attention[] = {Attention::softmax, Attention::linear, Attention::erf};

double norm_of(const Tensor& t) { return std::sqrt(sum(square(t)).item()); }

}  // namespace

TEST_CASE("signed sums of packed bits are those of the numbers") {
  for (const index_t d : {1, 7, 64, 65, 200}) {
    const Tensor signs = random_signs(9000, d, Random(1)), x = unpacked(signs, d, DType::f64);
    const Tensor w = random_normal({3, d}, DType::f64, 2), g = random_normal({9000, 3}, DType::f64, 3);
    CHECK(all_close(signed_sums(signs, w), matmul(x, transpose(w)), 1e-12, 1e-12));
    CHECK(all_close(signed_sums_adjoint(signs, g, d), matmul(transpose(g), x), 1e-11, 1e-11));
  }
}

TEST_CASE("the population loss is the mean over all inputs") {
  for (const Attention attention : every_attention) {
    const Problem problem = make_problem(9, 4, 2, 3);
    const Tensor queries = initial_queries(problem, Start::independent, 5), signs = all_signs(9);
    const Sampled all = sampled(problem, queries, attention, signs, targets_of(signs, problem.support, DType::f64));
    const Population closed = population(problem, queries, attention);
    CHECK(closed.loss == Approx(all.loss).epsilon(1e-12));
    CHECK(max_difference(closed.gradient, all.gradient) <= 1e-12);
  }
}

TEST_CASE("autodiff of the model is the closed form") {
  for (const Attention attention : every_attention)
    for (const auto& [d, m] : {std::pair<index_t, index_t>{64, 32}, {300, 20}}) {
      const Problem problem = make_problem(d, m, 2, 7);
      const Tensor queries = initial_queries(problem, Start::anti_symmetric, 7);
      Tape tape;
      const Tensor theta = tape.variable(queries);
      const Tensor loss = population_loss(problem, attention_of(problem, theta, attention));
      const Population closed = population(problem, queries, attention);
      CHECK(loss.item() == Approx(closed.loss).epsilon(1e-12));
      CHECK(max_difference(tape.backward(loss).of(theta), closed.gradient) <= 1e-12);
    }
}

TEST_CASE("the gradient of samples converges to the population's as one over the root of their number") {
  const Problem problem = make_problem(32, 8, 2, 1);
  const Tensor queries = initial_queries(problem, Start::independent, 1);
  const Tensor exact = population(problem, queries, Attention::softmax).gradient;
  std::vector<double> log_n, log_error;
  index_t drawn = 0;
  for (index_t n = 1 << 8; n <= 1 << 15; n *= 2) {
    double squares = 0;
    constexpr int draws = 40;
    for (int draw = 0; draw < draws; ++draw, drawn += n) {
      const Tensor signs = random_signs(n, 32, Random(2), drawn);
      const double error = norm_of(sampled(problem, queries, Attention::softmax, signs, targets_of(signs, problem.support, DType::f64)).gradient - exact);
      squares += error * error;
    }
    log_n.push_back(std::log(static_cast<double>(n)));
    log_error.push_back(0.5 * std::log(squares / draws));
  }
  double mean_n = 0, mean_e = 0, above = 0, below = 0;
  const auto count = static_cast<double>(log_n.size());
  for (std::size_t i = 0; i < log_n.size(); ++i) mean_n += log_n[i] / count, mean_e += log_error[i] / count;
  for (std::size_t i = 0; i < log_n.size(); ++i) above += (log_n[i] - mean_n) * (log_error[i] - mean_e), below += (log_n[i] - mean_n) * (log_n[i] - mean_n);
  CHECK(above / below == Approx(-0.5).margin(0.05));
}

TEST_CASE("one oracle step finds both bits exactly where its margins hold") {
  int successes = 0;
  constexpr int seeds = 40;
  for (int seed = 1; seed <= seeds; ++seed) {
    const auto id = static_cast<std::uint64_t>(seed);
    const Problem problem = make_problem(1024, 64, 2, id);
    const TrainResult result = train(problem, {.step_size = StepSize::oracle, .seed = id});
    const bool success = result.after.specialised && result.after.worst_case_loss < 1e-6;
    CHECK(success == result.margins.holds);
    if (success) CHECK(result.loss_after <= result.after.worst_case_loss);
    successes += success ? 1 : 0;
  }
  CHECK(successes >= 37);
}

TEST_CASE("the worst case bounds the loss of every input") {
  const Problem problem = make_problem(10, 6, 2, 4);
  const TrainResult result = train(problem, {.step_size = StepSize::oracle, .delta = 0.02, .seed = 4});
  REQUIRE(result.margins.holds);
  const Tensor signs = all_signs(10), s = signed_sums(signs, result.gamma_after);
  const Tensor residual = -(select(s, 1, 0) * select(s, 1, 1)) - targets_of(signs, problem.support, DType::f64);
  const double worst = max(square(residual)).item();
  CHECK(worst <= result.after.worst_case_loss);
  CHECK(worst >= 0.5 * result.after.worst_case_loss);
  CHECK(std::min(result.after.masses[0] + result.after.masses[1], result.after.masses[2] + result.after.masses[3]) >= 0.98);
}

TEST_CASE("the standard layer with a CLS token is the same function with the same trajectory") {
  for (const auto& [d, m, rows] : {std::tuple<index_t, index_t, index_t>{9, 5, 0}, {40, 6, 300}}) {
    const Problem problem = make_problem(d, m, 2, 6);
    const Tensor signs = rows == 0 ? all_signs(d) : random_signs(rows, d, Random(3)), y = targets_of(signs, problem.support, DType::f64);
    const Tensor tokens = tokens_of(problem, signs);
    Tensor queries = initial_queries(problem, Start::anti_symmetric, 6), matrices = attention_matrices(queries);
    for (int step = 0; step < 5; ++step) {
      const Sampled ours = sampled(problem, queries, Attention::softmax, signs, y);
      Tape tape;
      const Tensor a = tape.variable(matrices);
      const Tensor loss = mse_loss(transformer_output(tokens, a), y);
      const Tensor gradient = tape.backward(loss).of(a);
      CHECK(loss.item() == Approx(ours.loss).epsilon(1e-12));
      CHECK(max_difference(free_entries(gradient), ours.gradient) <= 1e-12 * std::max(1.0, norm_of(ours.gradient)));
      CHECK(equal(gradient, attention_matrices(free_entries(gradient))));  // what is not free has no gradient
      queries = queries - 20.0 * ours.gradient;
      matrices = matrices - 20.0 * gradient;
      CHECK(max_difference(free_entries(matrices), queries) <= 1e-12 * norm_of(queries));
    }
  }
}

TEST_CASE("linear and erf attention do not find the bits") {
  for (const Attention attention : {Attention::linear, Attention::erf})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const Problem problem = make_problem(64, 32, 2, seed);
      for (const double eta : {1e-2, 1.0, 1e2}) {
        const TrainResult one = train(problem, {.attention = attention, .step_size = StepSize::fixed, .eta = eta, .seed = seed});
        CHECK(!(one.loss_after < 0.9));
        CHECK(!one.after.specialised);
      }
    }
}

TEST_CASE("three heads find three bits on samples") {
  const Problem problem = make_problem(12, 10, 3, 2);
  const TrainResult result = train(problem, {.start = Start::independent, .samples = 4096, .step_size = StepSize::fixed, .eta = 30, .steps = 400, .seed = 3});
  CHECK(result.loss_after < 0.05);
  CHECK(result.after.specialised);
}

TEST_CASE("batches of a set, fresh samples and all of them train alike and depend on their seed alone") {
  const Problem problem = make_problem(32, 16, 2, 5);
  const TrainOptions base{.samples = 8192, .step_size = StepSize::fixed, .eta = 400, .steps = 20, .seed = 5};
  TrainOptions batches = base, fresh = base;
  batches.batch = 2048;
  fresh.fresh = true;
  for (const TrainOptions& options : {base, batches, fresh}) {
    const TrainResult first = train(problem, options);
    CHECK(first.losses.size() == 21);
    CHECK(first.loss_after < first.loss_before);
    const testing::UseThreads two(2);
    CHECK(equal(train(problem, options).queries, first.queries));
  }
}

TEST_CASE("bad options of parity are refused") {
  const Problem two = make_problem(16, 4, 2, 1), three = make_problem(16, 4, 3, 1);
  CHECK_THROWS_AS(make_problem(4, 4, 5, 1), ValueError);
  CHECK_THROWS_AS(make_problem(4, 0, 2, 1), ValueError);
  CHECK_THROWS_AS(initial_queries(three, Start::anti_symmetric, 1), ValueError);
  CHECK_THROWS_AS(train(three, {.start = Start::independent}), ValueError);
  CHECK_THROWS_AS(train(two, {.samples = 10, .batch = 11}), ValueError);
  CHECK_THROWS_AS(train(two, {.steps = 0}), ValueError);
  CHECK_THROWS_AS(train(two, {.step_size = StepSize::fixed, .eta = -1}), ValueError);
  CHECK_THROWS_AS(all_signs(21), ValueError);
}

TEST_CASE("the hidden layer learns what the linear classifier cannot") {
  const Problem problem = make_problem(16, 8, 2, 1);
  const NetworkResult network = train_network(problem, {.width = 32, .learning_rate = 1e-2, .batch = 128, .most_batches = 3000});
  CHECK(network.reached);
  CHECK(network.accuracy > 0.95);
  CHECK(network.parameters == 16 * 32 + 32 + 32 + 1);
  const LinearResult linear = train_linear(problem, 4096, 1);
  CHECK(linear.loss > 0.95);
  CHECK(std::abs(linear.accuracy - 0.5) < 0.05);
}
