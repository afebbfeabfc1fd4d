#pragma once
// Pictures of the published validation, repeated: traces, centre paths and assignments, distributions over the seeds.

#include <string>
#include <vector>

#include "tools/kmeans_exact.hpp"
#include "tools/plot.hpp"

namespace gradus::tools {

/// Objective per layer: the published trace beside ours, and one seed at every inverse temperature for both constructions.
[[nodiscard]] plot::Figure exact_traces(const ExactExperiment& experiment);
/// Figure 3 A to F: objective, centre paths and final assignment, of Lloyd above and of the transformer below.
[[nodiscard]] plot::Figure exact_example(const ExactExperiment& experiment);
/// Differences to Lloyd over the seeds, by inverse temperature, construction and switches.
[[nodiscard]] plot::Figure exact_distributions(const ExactExperiment& experiment);

}  // namespace gradus::tools
