#pragma once
// What `gradus reproduce parity` runs: one step on the population against sizes and step sizes, finite samples, attentions without
// softmax, networks of one hidden layer, and the equalities that the theory rests on.

#include <functional>
#include <string>
#include <vector>

#include "models/parity/baseline.hpp"
#include "models/parity/train.hpp"
#include "tools/plot.hpp"
#include "tools/reproduction.hpp"

namespace gradus::tools {

struct ParityPlan {
  bool quick = false;
  std::uint64_t seed = 1;
};

/// Seeds that succeeded at one setting.
struct SuccessCount {
  index_t bits = 0, embedding = 0;
  double setting = 0;     ///< step size over D^2, or number of samples
  double reference = -1;  ///< share found by an independent derivation; below 0: none
  int reference_seeds = 0;
  int seeds = 0, successes = 0;
  int mismatches = 0;  ///< oracle: seeds whose success is not what the margins say
  double seconds = 0;  ///< of all seeds
  [[nodiscard]] double share() const { return seeds > 0 ? static_cast<double>(successes) / seeds : 0; }
};

/// The best of a grid of step sizes for one attention and start, over seeds.
struct AttentionOutcome {
  parity::Attention attention = parity::Attention::softmax;
  parity::Start start = parity::Start::anti_symmetric;
  std::vector<double> one_step, many_steps;  ///< losses at the best step size, one a seed
  int specialised = 0;                       ///< seeds specialised after one step or many, at any step size
  std::vector<double> curve;                 ///< loss by step of the first seed at its best step size
};

/// Trainable parameters at equal success.
struct ParameterRow {
  index_t bits = 0, ours = 0, network = 0, width = 0, batches = 0;
  double network_loss = 0, ours_loss = 0;
  bool reached = false;
};

/// Loss in the plane of the two gradients: theta + s G, theta~ + t G~.
struct LossSurface {
  plot::Heat heat;
  parity::Attention attention = parity::Attention::softmax;
};

struct ParityExperiment {
  ParityPlan plan;
  std::vector<SuccessCount> oracle, fixed, recommended, samples;
  std::vector<AttentionOutcome> attentions;
  std::vector<ParameterRow> parameters;
  double linear_accuracy = 0, linear_loss = 0;
  double autodiff_difference = 0, layer_difference = 0, sample_exponent = 0;
  std::vector<double> exponents;  ///< of the samples that half of the seeds need, against D: one a fit
  std::vector<LossSurface> surfaces;
  parity::Problem example;
  parity::TrainResult example_run;
};

/// Number of calls of `after_run` that run_parity_experiment makes.
[[nodiscard]] index_t parity_runs(const ParityPlan& plan);
[[nodiscard]] ParityExperiment run_parity_experiment(const ParityPlan& plan, const std::function<void()>& after_run);
[[nodiscard]] std::vector<ReproductionRow> parity_rows(const ParityExperiment& experiment);
/// Adds the comparison with networks of one hidden layer; `after_batch` is called after each of their mini-batches.
void run_parity_networks(ParityExperiment& experiment, const std::function<void()>& after_batch);
/// Cells of the table of parameters, below parameter_header().
[[nodiscard]] const std::vector<std::string>& parameter_header();
[[nodiscard]] std::vector<std::string> parameter_cells(const ParameterRow& row);

}  // namespace gradus::tools
