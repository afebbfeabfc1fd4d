#include "tools/kmeans_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace gradus::tools {
namespace {

constexpr index_t most_named_clusters = 8;  // as many as there are colours

std::vector<double> column(const Tensor& matrix, index_t c) {
  const index_t rows = matrix.size(0), columns = matrix.size(1);
  return visit_floating(matrix.dtype(), "plot", [&](auto tag) {
    const auto values = matrix.to_vector<decltype(tag)>();
    std::vector<double> picked;
    for (index_t i = 0; i < rows; ++i) picked.push_back(static_cast<double>(values[static_cast<std::size_t>(i * columns + c)]));
    return picked;
  });
}

double variance(const std::vector<double>& values) {
  double mean = 0, sum = 0;
  for (const double v : values) mean += v / static_cast<double>(values.size());
  for (const double v : values) sum += (v - mean) * (v - mean);
  return sum / static_cast<double>(values.size());
}

std::string column_name(const std::vector<std::string>& names, index_t c) { return names.empty() ? cat("column ", c + 1) : names[static_cast<std::size_t>(c)]; }

// A plane to draw in: two columns or, when there is one only, that column against the layer.
struct Plane {
  index_t x, y;
  bool against_layer;

  explicit Plane(const Tensor& points) : against_layer(points.size(1) == 1) { std::tie(x, y) = columns_to_draw(points); }

  [[nodiscard]] plot::Panel panel(const Tensor& points, const std::vector<std::string>& names, const std::string& title) const {
    plot::Panel panel;
    panel.title = title;
    panel.x.label = column_name(names, x);
    panel.y.label = against_layer ? "layer" : column_name(names, y);
    panel.y.integers = against_layer;
    if (points.size(1) > 2) panel.note = cat("Of the ", points.size(1), " columns the two of largest variance are drawn.");
    return panel;
  }
};

// Points on the plane, one series a cluster. Against the layer they stand at the last one.
void add_points(plot::Panel& panel, const Plane& plane, const Tensor& points, const kmeans::Trace& trace) {
  const std::vector<double> x = column(points, plane.x),
                            y = plane.against_layer ? std::vector<double>(x.size(), static_cast<double>(trace.centres.size()) - 1) : column(points, plane.y);
  const auto labels = trace.labels.back().to_vector<std::int64_t>();
  const index_t k = trace.centres.back().size(0);
  const std::size_t first = panel.series.size();
  for (index_t j = 0; j < k; ++j)
    panel.series.push_back({.name = k <= most_named_clusters ? cat("cluster ", j) : "", .x = {}, .y = {}, .style = static_cast<int>(j)});
  for (std::size_t i = 0; i < x.size(); ++i) {
    plot::Series& series = panel.series[first + static_cast<std::size_t>(labels[i])];
    series.x.push_back(x[i]);
    series.y.push_back(y[i]);
  }
}

void add_paths(plot::Panel& panel, const Plane& plane, const kmeans::Trace& trace, bool named) {
  const index_t k = trace.centres.front().size(0);
  std::vector<std::vector<double>> x, y;
  for (const Tensor& centres : trace.centres) {
    y.push_back(plane.against_layer ? std::vector<double>(static_cast<std::size_t>(k), static_cast<double>(y.size())) : column(centres, plane.y));
    x.push_back(column(centres, plane.x));
  }
  for (index_t j = 0; j < k; ++j) {
    const std::string name = named ? cat("centre ", j) : j == 0 ? "path of a centre" : "";
    plot::Series path{.name = name, .kind = plot::Series::Kind::path, .x = {}, .y = {}, .style = static_cast<int>(j)};
    for (std::size_t t = 0; t < x.size(); ++t) {
      path.x.push_back(x[t][static_cast<std::size_t>(j)]);
      path.y.push_back(y[t][static_cast<std::size_t>(j)]);
    }
    panel.series.push_back(std::move(path));
  }
}

}  // namespace

std::pair<index_t, index_t> columns_to_draw(const Tensor& points) {
  const index_t d = points.size(1);
  if (d == 1) return {0, 0};
  std::vector<std::pair<double, index_t>> order;
  for (index_t c = 0; c < d; ++c) order.emplace_back(-variance(column(points, c)), c);
  std::partial_sort(order.begin(), order.begin() + 2, order.end());
  return std::minmax(order[0].second, order[1].second);
}

plot::Panel assignment_panel(const Tensor& points, const kmeans::Trace& trace, const std::vector<std::string>& names) {
  const Plane plane(points);
  plot::Panel panel = plane.panel(points, names, "Final assignment");
  add_points(panel, plane, points, trace);
  return panel;
}

plot::Panel centre_path_panel(const Tensor& points, const kmeans::Trace& trace, const std::vector<std::string>& names) {
  const Plane plane(points);
  plot::Panel panel = plane.panel(points, names, "Paths of the centres");
  add_paths(panel, plane, trace, trace.centres.front().size(0) <= most_named_clusters);
  return panel;
}

plot::Panel objective_panel(const std::vector<std::pair<std::string, std::vector<double>>>& log_traces) {
  plot::Panel panel;
  panel.title = "Objective per layer";
  panel.x = {.label = "layer", .unit = "", .integers = true};
  panel.y.label = "ln objective";
  for (const auto& [name, values] : log_traces) {
    plot::Series line{.name = name, .kind = plot::Series::Kind::line, .x = {}, .y = values};
    for (std::size_t t = 0; t < values.size(); ++t) line.x.push_back(static_cast<double>(t));
    panel.series.push_back(std::move(line));
  }
  return panel;
}

std::string kmeans_plot(const KmeansResult& result) {
  const KmeansSettings& s = result.settings;
  const Plane plane(result.points.values);
  plot::Panel clusters = assignment_panel(result.points.values, result.transformer, result.points.names);
  clusters.title = "Points by cluster and the paths of the centres";
  clusters.width = 480;
  clusters.height = 400;
  add_paths(clusters, plane, result.transformer, false);
  std::vector<std::pair<std::string, std::vector<double>>> traces{{"transformer", log_objectives(result.transformer)}};
  if (result.lloyd) traces.emplace_back("Lloyd", log_objectives(*result.lloyd));
  plot::Panel objective = objective_panel(traces);
  objective.height = 400;
  plot::Figure figure;
  figure.title =
      fmt::format("{} clusters in {}: {} points, {} layers, {} construction, inverse temperature {}", s.clusters, s.file, result.points.values.size(0),
                  s.layers, name_in(construction_names(), s.model.construction), temperature_name(s.model.inverse_temperature));
  figure.command = kmeans_command(s);
  figure.panels = {std::move(clusters), std::move(objective)};
  figure.columns = 2;
  return plot::to_svg(figure);
}

}  // namespace gradus::tools
