#include "models/parity/train.hpp"

#include <algorithm>
#include <cmath>

#include "engine/core/text.hpp"
#include "engine/ops/bits.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"

namespace gradus::parity {
namespace {

// Streams of a seed, beside those of the problem.
enum Stream : std::uint64_t { samples_stream = 11, order_stream, test_stream };

constexpr index_t test_rows = 1 << 16;

double loss_of(const Problem& problem, const Tensor& queries, const TrainOptions& options) {
  if (problem.heads() == 2) return population(problem, queries, options.attention).loss;
  const Tensor signs = random_signs(test_rows, problem.bits(), Random(options.seed, test_stream));
  return parity_loss(signs, attention_of(problem, queries, options.attention), targets_of(signs, problem.support, DType::f64)).item();
}

// The rows of each step: all samples, batches of a shuffled set, or fresh ones.
class Samples {
 public:
  Samples(const Problem& problem, const TrainOptions& options)
      : problem_(problem), options_(options), batch_(options.batch > 0 ? options.batch : options.samples), random_(options.seed, samples_stream) {
    if (options.fresh) return;
    signs_ = random_signs(options.samples, problem.bits(), random_);
    targets_ = targets_of(signs_, problem.support, DType::f64);
  }

  struct Rows {
    Tensor signs, targets;
  };
  [[nodiscard]] Rows rows(index_t step) const {
    if (options_.fresh) {
      const Tensor signs = random_signs(batch_, problem_.bits(), random_, step * batch_);
      return {signs, targets_of(signs, problem_.support, DType::f64)};
    }
    if (batch_ == options_.samples) return {signs_, targets_};
    const index_t batches = options_.samples / batch_, epoch = step / batches;
    std::vector<index_t> order(static_cast<std::size_t>(options_.samples));
    Random(options_.seed, order_stream).fork(static_cast<std::uint64_t>(epoch)).fill_permutation(order);
    const Tensor index =
        Tensor::from(std::span<const index_t>(order).subspan(static_cast<std::size_t>(step % batches * batch_), static_cast<std::size_t>(batch_)), {batch_});
    return {index_select(signs_, 0, index), index_select(targets_, 0, index)};
  }

 private:
  const Problem& problem_;
  const TrainOptions& options_;
  index_t batch_;
  Random random_;
  Tensor signs_, targets_;
};

void check(const Problem& problem, const TrainOptions& options) {
  const auto refuse = [](const std::string& got, const char* hint) { throw ValueError("parity", got, hint); };
  if (options.samples == 0 && problem.heads() != 2)
    refuse(cat("the population gradient of ", problem.heads(), " heads"), "its closed form is that of two heads; give a number of samples");
  if (options.samples < 0 || options.batch < 0 || options.batch > options.samples)
    refuse(cat(options.samples, " samples in batches of ", options.batch), "a batch holds from 1 to all samples");
  if (options.steps < 1) refuse(cat(options.steps, " steps"), "give at least 1");
  if (options.step_size == StepSize::fixed && (!(options.eta > 0) || std::isinf(options.eta)))
    refuse(cat("a step size of ", options.eta), "it must be finite and > 0");
  if (options.queries.defined() && options.queries.shape() != Shape{problem.heads(), problem.embedding()})
    refuse(cat("queries of shape ", options.queries.shape()), "give one a head, of the embedding's size");
}

double step_of(const Problem& problem, const TrainOptions& options, const Tensor& queries, const Tensor& descent) {
  if (options.step_size == StepSize::fixed) return options.eta;
  if (options.step_size == StepSize::oracle)
    if (const auto eta = oracle_step(problem, queries, descent, options.delta)) return *eta;
  return recommended_step(problem.bits(), problem.embedding());
}

}  // namespace

Margins margins_of(const Problem& problem, const Tensor& descent) {
  const Tensor gains = matmul(descent, transpose(problem.positions));
  const index_t d = problem.bits();
  Margins margins;
  for (index_t h = 0; h < problem.heads(); ++h) {
    const double* gain = gains.data<double>() + h * d;
    const index_t best = std::max_element(gain, gain + d) - gain;
    double lead = std::numeric_limits<double>::infinity();
    for (index_t i = 0; i < d; ++i)
      if (i != best) lead = std::min(lead, gain[best] - gain[i]);
    margins.winner.push_back(best);
    margins.lead.push_back(lead);
  }
  std::vector<index_t> winners = margins.winner;
  std::sort(winners.begin(), winners.end());
  margins.holds = winners == problem.support && *std::min_element(margins.lead.begin(), margins.lead.end()) > 0;
  return margins;
}

std::optional<double> oracle_step(const Problem& problem, const Tensor& queries, const Tensor& descent, double delta) {
  const Margins margins = margins_of(problem, descent);
  if (!margins.holds) return std::nullopt;
  const index_t d = problem.bits();
  const Tensor gains = matmul(descent, transpose(problem.positions)), scores = matmul(queries, transpose(problem.positions));
  const double wanted = std::log(static_cast<double>(d - 1) / delta);
  double eta = 0;
  for (index_t h = 0; h < problem.heads(); ++h) {
    const double *gain = gains.data<double>() + h * d, *score = scores.data<double>() + h * d;
    const index_t s = margins.winner[static_cast<std::size_t>(h)];
    for (index_t i = 0; i < d; ++i)
      if (i != s) eta = std::max(eta, (wanted - (score[s] - score[i])) / (gain[s] - gain[i]));
  }
  return eta;
}

double recommended_step(index_t bits, index_t embedding) {
  const auto d = static_cast<double>(bits);
  return 5 * d * d * std::sqrt(static_cast<double>(embedding)) * std::log(d);
}

Sampled sampled(const Problem& problem, const Tensor& queries, Attention attention, const Tensor& signs, const Tensor& targets) {
  Tape tape;
  const Tensor theta = tape.variable(queries);
  const Tensor loss = parity_loss(signs, attention_of(problem, theta, attention), targets);
  return {loss.item(), tape.backward(loss).of(theta).detached()};
}

TrainResult train(const Problem& problem, const TrainOptions& options, const std::function<void()>& after_step) {
  check(problem, options);
  TrainResult result;
  Tensor queries = options.queries.defined() ? options.queries : initial_queries(problem, options.start, options.seed);
  const std::optional<Samples> samples = options.samples > 0 ? std::optional<Samples>(std::in_place, problem, options) : std::nullopt;
  const auto gradient = [&](index_t step) -> Sampled {
    if (!samples) {
      Population at = population(problem, queries, options.attention);
      return {at.loss, at.gradient};
    }
    const auto rows = samples->rows(step);
    return sampled(problem, queries, options.attention, rows.signs, rows.targets);
  };
  result.gamma_before = attention_of(problem, queries, options.attention);
  result.before = read_attention(problem, result.gamma_before);
  result.loss_before = loss_of(problem, queries, options);
  for (index_t step = 0; step < options.steps; ++step) {
    const Sampled at = gradient(step);
    if (step == 0) {
      const Tensor descent = -at.gradient;
      result.margins = margins_of(problem, descent);
      result.eta = step_of(problem, options, queries, descent);
    }
    result.losses.push_back(at.loss);
    queries = queries - result.eta * at.gradient;
    if (after_step) after_step();
  }
  result.gamma_after = attention_of(problem, queries, options.attention);
  result.after = read_attention(problem, result.gamma_after);
  result.loss_after = loss_of(problem, queries, options);
  result.losses.push_back(result.loss_after);
  result.queries = queries;
  return result;
}

}  // namespace gradus::parity
