#include "tools/kmeans_exact_pictures.hpp"

#include <cmath>
#include <iterator>

#include "tools/kmeans_plot.hpp"

namespace gradus::tools {
namespace {

using kmeans::Construction;
using NamedTraces = std::vector<std::pair<std::string, std::vector<double>>>;

std::vector<double> median_trace(const std::vector<std::vector<double>>& traces) {
  std::vector<double> medians;
  for (std::size_t t = 0; t < traces.front().size(); ++t) {
    std::vector<double> layer;
    for (const auto& trace : traces) layer.push_back(trace[t]);
    medians.push_back(distribution_of(layer).median);
  }
  return medians;
}

bool has_published_switches(const ExactSetting& setting) { return setting.model.self_attention == kmeans::SelfAttention::identity; }

std::string command_of(const ExactExperiment& experiment) {
  return cat("gradus reproduce kmeans-exact --seeds ", experiment.seeds, " --seed ", experiment.first_seed);
}

plot::Panel published_panel(const ExactExperiment& experiment) {
  plot::Panel panel = objective_panel({{"Lloyd, ours", median_trace(experiment.lloyd_traces)},
                                       {"transformer, gamma 10000, ours", median_trace(published_runs(experiment).traces)},
                                       {"published", {std::begin(published_trace), std::end(published_trace)}}});
  panel.title = "Published trace, and the median of ours";
  panel.note =
      "The published points are another draw of the same mixture, so levels differ; the two lines of ours should lie on each other, as the published ones do.";
  return panel;
}

plot::Panel temperature_panel(const ExactExperiment& experiment, Construction construction) {
  NamedTraces traces{{"Lloyd", experiment.lloyd_traces.front()}};
  for (const ExactRuns& runs : experiment.runs)
    if (has_published_switches(runs.setting) && runs.setting.model.construction == construction)
      traces.emplace_back("gamma " + temperature_name(runs.setting.model.inverse_temperature), runs.traces.front());
  plot::Panel panel = objective_panel(traces);
  panel.title = cat("Seed ", experiment.first_seed, ", ", name_in(construction_names(), construction), " construction");
  return panel;
}

// One row of Figure 3.
void add_course(plot::Figure& figure, const Tensor& points, const kmeans::Trace& trace, const std::string& who, char letter) {
  std::vector<plot::Panel> panels{objective_panel({{who, log_objectives(trace)}}), centre_path_panel(points, trace, {}), assignment_panel(points, trace, {})};
  for (plot::Panel& panel : panels) {
    panel.title = cat(letter++, "  ", who, ": ", panel.title);
    panel.width = 340;
    figure.panels.push_back(std::move(panel));
  }
}

// Boxes of `values` by inverse temperature and construction; the limit is no place on these axes, since its differences are rounding.
plot::Panel box_panel(const ExactExperiment& experiment, bool published_switches, const std::string& label,
                      double (*value)(const ExactRuns&, std::size_t seed)) {
  plot::Panel panel;
  panel.title = published_switches ? "Published switches, n = 10,000" : "All attentions in full, n = 1,000";
  panel.x.label = "inverse temperature gamma";
  panel.y.label = label;
  panel.y.scale = plot::Scale::log;
  for (const ExactRuns& runs : experiment.runs) {
    const auto& model = runs.setting.model;
    if (has_published_switches(runs.setting) != published_switches || std::isinf(model.inverse_temperature)) continue;
    plot::Box box{temperature_name(model.inverse_temperature), name_in(construction_names(), model.construction), {}};
    for (std::size_t s = 0; s < runs.agreement.size(); ++s) box.values.push_back(value(runs, s));
    panel.boxes.push_back(std::move(box));
  }
  return panel;
}

}  // namespace

plot::Figure exact_traces(const ExactExperiment& experiment) {
  return {.title = "Objective of the k-means transformer and of Lloyd, per layer",
          .command = command_of(experiment),
          .panels = {published_panel(experiment), temperature_panel(experiment, Construction::euclidean),
                     temperature_panel(experiment, Construction::dot_product)}};
}

plot::Figure exact_example(const ExactExperiment& experiment) {
  plot::Figure figure{.title = cat("Lloyd (A-C) and the transformer at inverse temperature 10000 (D-F), seed ", experiment.first_seed),
                      .command = command_of(experiment),
                      .panels = {}};
  const ExactExample& example = experiment.example;
  add_course(figure, example.points, example.lloyd, "Lloyd", 'A');
  add_course(figure, example.points, example.transformer, "Transformer", 'D');
  return figure;
}

plot::Figure exact_distributions(const ExactExperiment& experiment) {
  const auto objective = [](const ExactRuns& runs, std::size_t s) { return std::fabs(runs.log_difference[s]); };
  const auto labels = [](const ExactRuns& runs, std::size_t s) { return 1 - runs.agreement[s]; };
  plot::Figure figure{.title = cat("Differences to Lloyd over ", experiment.seeds, " seeds; in the limit they are rounding errors"),
                      .command = command_of(experiment),
                      .panels = {}};
  for (const bool published_switches : {true, false}) {
    figure.panels.push_back(box_panel(experiment, published_switches, "|final ln objective - Lloyd's|", objective));
    figure.panels.push_back(box_panel(experiment, published_switches, "share of points labelled otherwise", labels));
    figure.panels.back().note = "Seeds in which all labels agree are not drawn.";
  }
  figure.columns = 2;
  return figure;
}

}  // namespace gradus::tools
