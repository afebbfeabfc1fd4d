#pragma once
// The published numerical validation of the k-means transformer (Figure 3), with our own random numbers: the runs and what they show.

#include <cstdint>
#include <functional>
#include <vector>

#include "models/kmeans/transformer.hpp"
#include "tools/reproduction.hpp"

namespace gradus::tools {

/// One configuration, run with every seed.
struct ExactSetting {
  index_t points;
  kmeans::TransformerOptions model;
};
/// "euclidean, published switches, gamma 10000"; gamma is the inverse temperature, "all in full" the four attentions at n = 1,000.
[[nodiscard]] std::string name_of(const ExactSetting& setting);

/// What a configuration gave; one entry a seed.
struct ExactRuns {
  ExactSetting setting;
  std::vector<double> log_difference;       ///< final ln objective minus Lloyd's
  std::vector<double> agreement;            ///< share of equal labels at the end
  std::vector<double> centre_difference;    ///< largest over all layers before the first tie or empty cluster, over max |x|
  std::vector<std::vector<double>> traces;  ///< ln objective after each layer
  int ambiguous_seeds = 0;                  ///< that met a tie or an empty cluster
};

/// The course of one seed, for pictures.
struct ExactExample {
  Tensor points;
  kmeans::Trace lloyd, transformer;
};

struct ExactExperiment {
  std::uint64_t first_seed = 1;
  int seeds = 20;
  std::vector<ExactRuns> runs;
  std::vector<std::vector<double>> lloyd_traces;  ///< ln objective, n = 10,000, one a seed
  ExactExample example;                           ///< the first seed with the published configuration
};

inline constexpr double published_temperature = 1e4;
/// ln objective at the start and after each of ten layers, as printed in the paper; Lloyd's and the transformer's are the same to these digits.
inline constexpr double published_trace[] = {6.44, 5.78, 5.47, 4.96, 4.69, 4.61, 4.59, 4.59, 4.59, 4.59, 4.59};

/// All configurations, in the order in which they are run and listed.
[[nodiscard]] std::vector<ExactSetting> exact_settings();
/// Runs everything with seeds first_seed, first_seed + 1, ...; `after_run` is called after each run.
[[nodiscard]] ExactExperiment run_exact_experiment(std::uint64_t first_seed, int seeds, const std::function<void()>& after_run);
/// The comparison with what is published.
[[nodiscard]] std::vector<ReproductionRow> exact_rows(const ExactExperiment& experiment);
/// The runs of the published configuration: Euclidean, published switches, inverse temperature 1e4.
[[nodiscard]] const ExactRuns& published_runs(const ExactExperiment& experiment);

}  // namespace gradus::tools
