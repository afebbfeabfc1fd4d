#pragma once
// Pictures of clusterings: points by cluster with the path of every centre, and the objective per layer.

#include <string>
#include <utility>
#include <vector>

#include "models/kmeans/lloyd.hpp"
#include "tools/kmeans_results.hpp"
#include "tools/plot.hpp"

namespace gradus::tools {

/// The columns of points (N, D) to draw: the two of largest variance, in their order; {0, 0} when there is one column only.
[[nodiscard]] std::pair<index_t, index_t> columns_to_draw(const Tensor& points);

/// Points coloured by the labels at the end of the trace. `names` of the columns may be empty.
[[nodiscard]] plot::Panel assignment_panel(const Tensor& points, const kmeans::Trace& trace, const std::vector<std::string>& names);
/// The path of every centre over the layers.
[[nodiscard]] plot::Panel centre_path_panel(const Tensor& points, const kmeans::Trace& trace, const std::vector<std::string>& names);
/// ln of the objective after each layer, one line a trace.
[[nodiscard]] plot::Panel objective_panel(const std::vector<std::pair<std::string, std::vector<double>>>& log_traces);

/// The picture of `gradus kmeans run`.
[[nodiscard]] std::string kmeans_plot(const KmeansResult& result);

}  // namespace gradus::tools
