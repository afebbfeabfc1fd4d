#include "tools/parity_experiments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "engine/autograd/tape.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/tensor/view.hpp"
#include "models/parity/transformer.hpp"

namespace gradus::tools {
namespace {

using namespace parity;
using AfterRun = std::function<void()>;

// ---- the plan ----------------------------------------------------------------------------------------------------------

// Shares found by an independent derivation (200 draws; 30 for samples) at (D, M).
struct Known {
  index_t bits, embedding;
  double share;
};
constexpr Known oracle_full[] = {{64, 16, .91},  {64, 32, .92},   {64, 64, .93},   {256, 16, .92},  {256, 32, .94},
                                 {256, 64, .97}, {1024, 16, .83}, {1024, 32, .97}, {1024, 64, .99}, {1024, 128, .98}};
struct KnownSamples {
  index_t bits, embedding, samples;
  double share;
};
constexpr KnownSamples samples_full[] = {{32, 32, 256, .23},    {32, 32, 1024, .70},   {32, 32, 4096, .70},  {32, 32, 16384, .83}, {32, 32, 65536, .87},
                                         {64, 32, 1024, .20},   {64, 32, 4096, .57},   {64, 32, 16384, .80}, {64, 32, 65536, .90}, {64, 32, 262144, .97},
                                         {64, 64, 1024, .30},   {64, 64, 4096, .40},   {64, 64, 16384, .87}, {128, 64, 4096, .27}, {128, 64, 16384, .43},
                                         {128, 64, 65536, .80}, {128, 64, 262144, .90}};
struct KnownStep {
  double over_d_squared, share;
};
constexpr KnownStep fixed_full[] = {{1, 0}, {3, .10}, {10, .71}, {30, .84}, {100, .87}, {300, .92}, {1000, .94}};

template <class T, std::size_t n>
std::vector<T> chosen(const T (&all)[n], bool quick, std::size_t step) {
  std::vector<T> out;
  for (std::size_t i = 0; i < n; ++i)
    if (!quick || i % step == 0) out.push_back(all[i]);
  return out;
}

struct Sizes {
  int oracle_seeds, many_seeds, step_seeds, sample_seeds, attention_seeds;
  std::vector<Known> oracle;
  std::vector<KnownSamples> samples;
  std::vector<std::pair<index_t, index_t>> large;  // D, M of one run each
  std::vector<index_t> network_bits;
};
Sizes sizes_of(const ParityPlan& plan) {
  Sizes s{.oracle_seeds = plan.quick ? 100 : 200,
          .many_seeds = 200,
          .step_seeds = plan.quick ? 60 : 200,
          .sample_seeds = plan.quick ? 15 : 60,
          .attention_seeds = plan.quick ? 10 : 50,
          .oracle = chosen(oracle_full, plan.quick, 4),
          .samples = chosen(samples_full, plan.quick, 3),
          .large = {{4096, 128}, {16384, 128}, {65536, 256}},
          .network_bits = plan.quick ? std::vector<index_t>{32, 64} : std::vector<index_t>{64, 256, 1024, 4096}};
  return s;
}

constexpr double oracle_loss = 1e-6;

std::uint64_t seed_of(const ParityPlan& plan, int i) { return plan.seed + static_cast<std::uint64_t>(i); }

// ---- one step on the population ----------------------------------------------------------------------------------------

SuccessCount count_oracle(const ParityPlan& plan, index_t bits, index_t embedding, double reference, int seeds, const AfterRun& after) {
  SuccessCount count{.bits = bits, .embedding = embedding, .reference = reference, .reference_seeds = 200, .seeds = seeds};
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < seeds; ++i) {
    const std::uint64_t seed = seed_of(plan, i);
    const TrainResult r = train(make_problem(bits, embedding, 2, seed), {.step_size = StepSize::oracle, .seed = seed});
    const bool success = r.after.specialised && r.after.worst_case_loss < oracle_loss;
    count.successes += success ? 1 : 0;
    count.mismatches += success != r.margins.holds ? 1 : 0;
    after();
  }
  count.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return count;
}

// One step of a given size; success is a population loss below `below`.
SuccessCount count_step(const ParityPlan& plan, index_t bits, index_t embedding, const TrainOptions& options, double below, int seeds, const AfterRun& after) {
  SuccessCount count{.bits = bits, .embedding = embedding, .seeds = seeds};
  for (int i = 0; i < seeds; ++i) {
    TrainOptions mine = options;
    mine.seed = seed_of(plan, i);
    count.successes += train(make_problem(bits, embedding, 2, mine.seed), mine).loss_after < below ? 1 : 0;
    after();
  }
  return count;
}

TrainOptions step_of(double eta, index_t samples = 0) { return {.samples = samples, .step_size = StepSize::fixed, .eta = eta}; }

double squared(index_t d) { return static_cast<double>(d) * static_cast<double>(d); }

void run_population(ParityExperiment& e, const Sizes& sizes, const AfterRun& after) {
  for (const Known& k : sizes.oracle) {
    const int seeds = k.bits == 1024 && k.embedding == 64 ? sizes.many_seeds : sizes.oracle_seeds;
    e.oracle.push_back(count_oracle(e.plan, k.bits, k.embedding, k.share, seeds, after));
  }
  for (const auto& [d, m] : sizes.large) e.oracle.push_back(count_oracle(e.plan, d, m, -1, 1, after));
  for (const KnownStep& k : fixed_full) {
    e.fixed.push_back(count_step(e.plan, 64, 32, step_of(k.over_d_squared * squared(64)), 0.01, sizes.step_seeds, after));
    e.fixed.back().setting = k.over_d_squared;
    e.fixed.back().reference = k.share;
    e.fixed.back().reference_seeds = 200;
  }
  for (const index_t d : {64, 256, 1024}) e.recommended.push_back(count_step(e.plan, d, 64, {}, 0.01, sizes.step_seeds, after));
}

void run_samples(ParityExperiment& e, const Sizes& sizes, const AfterRun& after) {
  for (const KnownSamples& k : sizes.samples) {
    e.samples.push_back(count_step(e.plan, k.bits, k.embedding, step_of(1000 * squared(k.bits), k.samples), 0.05, sizes.sample_seeds, after));
    e.samples.back().setting = static_cast<double>(k.samples);
    e.samples.back().reference = k.share;
    e.samples.back().reference_seeds = 30;
  }
}

// Samples at which half of the seeds succeed, by interpolation on a logarithmic axis; 0 when the counts do not enclose it.
double half_point(const std::vector<SuccessCount>& counts, index_t bits, index_t embedding) {
  const SuccessCount* before = nullptr;
  for (const SuccessCount& c : counts) {
    if (c.bits != bits || c.embedding != embedding) continue;
    if (before != nullptr && before->share() < 0.5 && c.share() >= 0.5) {
      const double at = (0.5 - before->share()) / (c.share() - before->share());
      return std::exp(std::log(before->setting) + at * (std::log(c.setting) - std::log(before->setting)));
    }
    before = &c;
  }
  return 0;
}

// ---- other attentions --------------------------------------------------------------------------------------------------

AttentionOutcome run_attention(const ParityPlan& plan, Attention attention, Start start, int seeds, index_t steps, const AfterRun& after) {
  AttentionOutcome outcome{.attention = attention, .start = start, .one_step = {}, .many_steps = {}, .curve = {}};
  std::vector<double> grid;
  for (double power = -3; power <= 4; power += 0.5) grid.push_back(std::pow(10, power));
  if (attention == Attention::softmax) grid = {recommended_step(64, 32)};
  for (int i = 0; i < seeds; ++i) {
    const std::uint64_t seed = seed_of(plan, i);
    const Problem problem = make_problem(64, 32, 2, seed);
    double best_one = std::numeric_limits<double>::infinity(), best_many = best_one;
    bool specialised = false;
    for (const double eta : grid) {
      const TrainOptions options{.attention = attention, .start = start, .step_size = StepSize::fixed, .eta = eta, .steps = steps, .seed = seed};
      TrainOptions one = options;
      one.steps = 1;
      const TrainResult first = train(problem, one);
      const TrainResult last = steps > 1 ? train(problem, options) : first;
      if (first.loss_after < best_one) best_one = first.loss_after;
      if (last.loss_after < best_many) {
        best_many = last.loss_after;
        if (i == 0) outcome.curve = last.losses;
      }
      // One head on each bit, as a solution is read: the best loss such attention could have is far below 1.
      specialised = specialised || (first.after.specialised && first.loss_after < 0.5) || (last.after.specialised && last.loss_after < 0.5);
    }
    outcome.one_step.push_back(best_one);
    outcome.many_steps.push_back(best_many);
    outcome.specialised += specialised ? 1 : 0;
    after();
  }
  return outcome;
}

void run_attentions(ParityExperiment& e, const Sizes& sizes, const AfterRun& after) {
  e.attentions.push_back(run_attention(e.plan, Attention::softmax, Start::anti_symmetric, sizes.attention_seeds, 1, after));
  for (const Start start : {Start::anti_symmetric, Start::independent})
    for (const Attention attention : {Attention::linear, Attention::erf})
      e.attentions.push_back(run_attention(e.plan, attention, start, sizes.attention_seeds, 200, after));
}

// ---- parameters --------------------------------------------------------------------------------------------------------

constexpr index_t widths[] = {16, 32, 64, 128};
constexpr double rates[] = {3e-2, 1e-2, 3e-3};

// The narrowest network that reaches the loss within the budget at its best step size; where none does, the widest and its loss.
ParameterRow compare_parameters(const ParityPlan& plan, index_t bits, const AfterRun& after) {
  ParameterRow row{.bits = bits};
  constexpr index_t embedding = 64;
  std::uint64_t seed = plan.seed;
  while (!train(make_problem(bits, embedding, 2, seed), {.step_size = StepSize::oracle, .seed = seed}).margins.holds) ++seed;
  const Problem problem = make_problem(bits, embedding, 2, seed);
  row.ours = 2 * embedding;
  row.ours_loss = train(problem, {.step_size = StepSize::oracle, .seed = seed}).loss_after;
  const index_t most_batches = plan.quick ? 4000 : 20000;
  for (const index_t width : widths) {
    for (const double rate : rates) {
      const NetworkResult r = train_network(problem, {.width = width, .learning_rate = rate, .most_batches = most_batches, .seed = seed}, after);
      if (row.network == 0 || r.loss < row.network_loss) {
        row.network = r.parameters;
        row.width = width;
        row.batches = r.batches;
        row.network_loss = r.loss;
        row.reached = r.reached;
      }
      if (r.reached) return row;
    }
  }
  return row;
}

// ---- equalities --------------------------------------------------------------------------------------------------------

double largest_autodiff_difference(const ParityPlan& plan) {
  double largest = 0;
  for (const Attention attention : {Attention::softmax, Attention::linear, Attention::erf}) {
    const Problem problem = make_problem(256, 32, 2, plan.seed);
    Tape tape;
    const Tensor queries = initial_queries(problem, Start::anti_symmetric, plan.seed), theta = tape.variable(queries);
    const Tensor gradient = tape.backward(population_loss(problem, attention_of(problem, theta, attention))).of(theta);
    largest = std::max(largest, max_difference(gradient, population(problem, queries, attention).gradient));
  }
  return largest;
}

// Losses and queries of both over ten steps on all inputs of 10 bits, relative.
double largest_layer_difference(const ParityPlan& plan) {
  const Problem problem = make_problem(10, 6, 2, plan.seed);
  const Tensor signs = all_signs(10), y = targets_of(signs, problem.support, DType::f64), tokens = tokens_of(problem, signs);
  Tensor queries = initial_queries(problem, Start::anti_symmetric, plan.seed), matrices = attention_matrices(queries);
  double largest = 0;
  for (int step = 0; step < 10; ++step) {
    const Sampled ours = sampled(problem, queries, Attention::softmax, signs, y);
    Tape tape;
    const Tensor a = tape.variable(matrices), loss = mse_loss(transformer_output(tokens, a), y);
    const Tensor gradient = tape.backward(loss).of(a);
    queries = queries - 20.0 * ours.gradient;
    matrices = matrices - 20.0 * gradient;
    largest = std::max({largest, std::fabs(loss.item() - ours.loss) / ours.loss, max_difference(free_entries(matrices), queries) / max(abs(queries)).item()});
  }
  return largest;
}

// Slope of ln error against ln n of the sampled gradient.
double fitted_exponent(const ParityPlan& plan) {
  const Problem problem = make_problem(64, 32, 2, plan.seed);
  const Tensor queries = initial_queries(problem, Start::anti_symmetric, plan.seed), exact = population(problem, queries, Attention::softmax).gradient;
  std::vector<double> x, y;
  index_t drawn = 0;
  for (index_t n = 1 << 8; n <= 1 << 16; n *= 2) {
    constexpr int draws = 30;
    double squares = 0;
    for (int i = 0; i < draws; ++i, drawn += n) {
      const Tensor signs = random_signs(n, 64, Random(plan.seed, 77), drawn);
      squares += sum(square(sampled(problem, queries, Attention::softmax, signs, targets_of(signs, problem.support, DType::f64)).gradient - exact)).item();
    }
    x.push_back(std::log(static_cast<double>(n)));
    y.push_back(0.5 * std::log(squares / draws));
  }
  double mean_x = 0, mean_y = 0, xy = 0, xx = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / static_cast<double>(x.size());
    mean_y += y[i] / static_cast<double>(x.size());
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean_x) * (y[i] - mean_y);
    xx += (x[i] - mean_x) * (x[i] - mean_x);
  }
  return xy / xx;
}

// ---- pictures' data ----------------------------------------------------------------------------------------------------

double best_common_step(const Problem& problem, const Tensor& queries, const Tensor& descent, Attention attention) {
  double best = 0, least = std::numeric_limits<double>::infinity();
  for (double power = -3; power <= 4; power += 0.1) {
    const double eta = std::pow(10, power), loss = population(problem, queries + eta * descent, attention).loss;
    if (loss < least) {
      least = loss;
      best = eta;
    }
  }
  return best;
}

LossSurface surface_of(const Problem& problem, const Tensor& queries, Attention attention) {
  constexpr std::size_t cells = 41;
  const Tensor descent = -population(problem, queries, attention).gradient;
  const double reach =
      attention == Attention::softmax ? recommended_step(problem.bits(), problem.embedding()) / 4 : 3 * best_common_step(problem, queries, descent, attention);
  LossSurface surface{.heat = {.rows = cells, .columns = cells, .values = {}, .x_low = 0, .x_high = reach, .y_low = 0, .y_high = reach, .label = "loss"},
                      .attention = attention};
  for (std::size_t r = 0; r < cells; ++r)
    for (std::size_t c = 0; c < cells; ++c) {
      const double s = reach * (static_cast<double>(c) + 0.5) / cells, t = reach * (static_cast<double>(r) + 0.5) / cells;
      const Tensor steps = Tensor::of({{s}, {t}}, DType::f64);
      surface.heat.values.push_back(population(problem, queries + steps * descent, attention).loss);
    }
  return surface;
}

void run_example(ParityExperiment& e) {
  std::uint64_t seed = e.plan.seed;
  do {
    e.example = make_problem(64, 32, 2, seed);
    e.example_run = train(e.example, {.step_size = StepSize::oracle, .seed = seed});
    ++seed;
  } while (!e.example_run.margins.holds);
  const Tensor queries = initial_queries(e.example, Start::anti_symmetric, seed - 1);
  for (const Attention attention : {Attention::softmax, Attention::linear, Attention::erf}) e.surfaces.push_back(surface_of(e.example, queries, attention));
}

// ---- rows --------------------------------------------------------------------------------------------------------------

ReproductionRow plain_row(std::string name, double measured, int seeds = 1) {
  return {.name = std::move(name),
          .measured = measured,
          .spread = distribution_of({measured}),
          .seeds = seeds,
          .within = std::nullopt,
          .criterion = "",
          .note = ""};
}

ReproductionRow judged(ReproductionRow row, bool within, std::string criterion) {
  row.within = within;
  row.criterion = std::move(criterion);
  return row;
}

// A share beside one that is known from `reference_seeds` draws: within three standard errors of their difference.
ReproductionRow share_row(std::string name, const SuccessCount& c) {
  ReproductionRow row = plain_row(std::move(name), c.share(), c.seeds);
  if (c.reference < 0) return row;
  row.source = Source::derived;
  row.published = c.reference;
  const double pooled = (c.successes + c.reference * c.reference_seeds) / (c.seeds + c.reference_seeds);
  // Never below what one seed more or less makes.
  const double error = std::max(std::sqrt(pooled * (1 - pooled) * (1.0 / c.seeds + 1.0 / c.reference_seeds)), 1.0 / c.seeds);
  return judged(std::move(row), std::fabs(c.share() - c.reference) <= 3 * error, "3 standard errors");
}

std::string name_of(Attention attention) { return attention == Attention::softmax ? "softmax" : attention == Attention::linear ? "linear" : "erf"; }

void add_oracle_rows(const ParityExperiment& e, std::vector<ReproductionRow>& rows) {
  int mismatches = 0, seeds = 0;
  for (const SuccessCount& c : e.oracle) {
    const std::string name = fmt::format("one oracle step, d {}, m {}: share with loss < 1e-6 on every input", c.bits, c.embedding);
    mismatches += c.mismatches;
    seeds += c.seeds;
    if (c.seeds == 1) {
      rows.push_back(plain_row(name, c.share()));
      rows.back().note = fmt::format("{:.2f} s", c.seconds);
      if (c.bits != 65536) continue;
      rows.push_back(plain_row("seconds of d 65536, m 256", c.seconds));
      rows.back().note = "less than 2 on a machine that does nothing else";
    } else if (c.bits == 1024 && c.embedding == 64) {
      ReproductionRow row = plain_row(name, c.share(), c.seeds);
      row.source = Source::derived;
      row.published = 0.97;
      rows.push_back(judged(std::move(row), c.share() >= 0.93, "at least 0.93"));
    } else {
      rows.push_back(share_row(name, c));
    }
  }
  rows.push_back(judged(plain_row("seeds whose success is not what the margin condition says", mismatches, seeds), mismatches == 0, "none"));
}

void add_attention_rows(const ParityExperiment& e, std::vector<ReproductionRow>& rows) {
  for (const AttentionOutcome& a : e.attentions) {
    const auto seeds = static_cast<int>(a.one_step.size());
    const char* start = a.start == Start::anti_symmetric ? "anti-symmetric" : "independent";
    const auto row = [&](const char* what, const std::vector<double>& losses) {
      ReproductionRow r = plain_row(fmt::format("{} attention, {} start: {}", name_of(a.attention), start, what), distribution_of(losses).median, seeds);
      r.spread = distribution_of(losses);
      return r;
    };
    if (a.attention == Attention::softmax) {
      rows.push_back(row("loss after one step", a.one_step));
      continue;
    }
    ReproductionRow one = row("least loss after one step", a.one_step), many = row("least loss after 200 steps", a.many_steps);
    if (a.start == Start::independent) {
      one.note = many.note = "reported only: independent starts reach lower";
      rows.push_back(std::move(one));
      rows.push_back(std::move(many));
      continue;
    }
    const bool one_holds = one.spread.min >= 0.9, many_holds = many.spread.median >= 0.85;
    rows.push_back(judged(std::move(one), one_holds, "at least 0.9 in every seed"));
    many.note = "the best of 15 step sizes, half a decade apart; single seeds reach the minimum";
    rows.push_back(judged(std::move(many), many_holds, "median at least 0.85"));
    rows.push_back(judged(plain_row(fmt::format("{} attention, {} start: seeds that specialise", name_of(a.attention), start), a.specialised, seeds),
                          a.specialised == 0, "none"));
  }
}

void add_sample_rows(const ParityExperiment& e, std::vector<ReproductionRow>& rows) {
  for (const SuccessCount& c : e.samples)
    rows.push_back(
        share_row(fmt::format("one step on {} samples, d {}, m {}: share with loss < 0.05", static_cast<index_t>(c.setting), c.bits, c.embedding), c));
  for (const double exponent : e.exponents) {
    ReproductionRow row = plain_row("exponent of d in the samples that half of the seeds need", exponent, 1);
    row.source = Source::derived;
    row.published = 2;
    row.note = "the theorem's bound has d^4 (Corollary 3); about d^2 is observed";
    rows.push_back(std::move(row));
  }
}

}  // namespace

index_t parity_runs(const ParityPlan& plan) {
  const Sizes s = sizes_of(plan);
  index_t runs = static_cast<index_t>(s.large.size()) + s.step_seeds * (static_cast<index_t>(std::size(fixed_full)) + 3) + s.attention_seeds * 5 +
                 s.sample_seeds * static_cast<index_t>(s.samples.size());
  for (const Known& k : s.oracle) runs += k.bits == 1024 && k.embedding == 64 ? s.many_seeds : s.oracle_seeds;
  return runs;
}

ParityExperiment run_parity_experiment(const ParityPlan& plan, const AfterRun& after_run) {
  ParityExperiment e;
  e.plan = plan;
  const Sizes sizes = sizes_of(plan);
  run_example(e);
  e.autodiff_difference = largest_autodiff_difference(plan);
  e.layer_difference = largest_layer_difference(plan);
  e.sample_exponent = fitted_exponent(plan);
  run_population(e, sizes, after_run);
  run_samples(e, sizes, after_run);
  run_attentions(e, sizes, after_run);
  const double low = half_point(e.samples, 64, 64), high = half_point(e.samples, 128, 64);
  if (low > 0 && high > 0) e.exponents.push_back(std::log2(high / low));
  const LinearResult linear = train_linear(make_problem(64, 32, 2, plan.seed), 8192, plan.seed);
  e.linear_accuracy = linear.accuracy;
  e.linear_loss = linear.loss;
  return e;
}

void run_parity_networks(ParityExperiment& experiment, const AfterRun& after_batch) {
  for (const index_t bits : sizes_of(experiment.plan).network_bits) experiment.parameters.push_back(compare_parameters(experiment.plan, bits, after_batch));
}

std::vector<ReproductionRow> parity_rows(const ParityExperiment& e) {
  std::vector<ReproductionRow> rows;
  add_oracle_rows(e, rows);
  for (const SuccessCount& c : e.fixed) rows.push_back(share_row(fmt::format("one step of {:g} d^2, d 64, m 32: share with loss < 0.01", c.setting), c));
  for (const SuccessCount& c : e.recommended)
    rows.push_back(plain_row(fmt::format("one step of 5 d^2 sqrt(m) ln d, d {}, m {}: share with loss < 0.01", c.bits, c.embedding), c.share(), c.seeds));
  add_sample_rows(e, rows);
  add_attention_rows(e, rows);
  rows.push_back(judged(plain_row("autodiff less closed form, largest", e.autodiff_difference), e.autodiff_difference <= 1e-12, "at most 1e-12"));
  rows.push_back(
      judged(plain_row("standard layer with CLS token, relative difference over ten steps", e.layer_difference), e.layer_difference <= 1e-12, "at most 1e-12"));
  ReproductionRow exponent = plain_row("exponent of n in the error of the sampled gradient", e.sample_exponent);
  exponent.source = Source::derived;
  exponent.published = -0.5;
  rows.push_back(judged(std::move(exponent), std::fabs(e.sample_exponent + 0.5) <= 0.05, "within 0.05"));
  rows.push_back(judged(plain_row("linear classifier on the embeddings, accuracy", e.linear_accuracy), std::fabs(e.linear_accuracy - 0.5) <= 0.03,
                        "0.5 within 0.03: it fails"));
  return rows;
}

const std::vector<std::string>& parameter_header() {
  static const std::vector<std::string> header{"d", "ours (2 m)", "our loss", "network (d w + 2 w + 1)", "width", "mini-batches", "its loss", "reached 0.05"};
  return header;
}
std::vector<std::string> parameter_cells(const ParameterRow& row) {
  return {std::to_string(row.bits),  std::to_string(row.ours),    fmt::format("{:.2g}", row.ours_loss),    std::to_string(row.network),
          std::to_string(row.width), std::to_string(row.batches), fmt::format("{:.3g}", row.network_loss), row.reached ? "yes" : "no"};
}

}  // namespace gradus::tools
