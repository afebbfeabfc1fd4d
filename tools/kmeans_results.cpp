#include "tools/kmeans_results.hpp"

#include <fmt/format.h>

#include <cmath>

#include "engine/core/parallel.hpp"
#include "engine/io/npy.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/tensor/view.hpp"
#include "tools/json_output.hpp"
#include "tools/table_print.hpp"

namespace gradus::tools {
namespace {

using kmeans::CentreUpdate;
using kmeans::Construction;
using kmeans::SelfAttention;
using kmeans::Start;

std::string layer_count(index_t value, bool known) { return known ? cat(value) : "-"; }

// Columns of one layer; what belongs to the step into it has no value at the start.
std::vector<std::string> layer_row(const KmeansResult& result, std::size_t t) {
  const kmeans::Trace& trace = result.transformer;
  const bool step = t > 0;
  const std::size_t before = step ? t - 1 : 0;
  std::vector<std::string> row{cat(t),
                               fmt::format("{:.6g}", trace.objective[t]),
                               fmt::format("{:.6f}", std::log(trace.objective[t])),
                               layer_count(step ? trace.moved_centres[before] : 0, step),
                               layer_count(trace.tied_points[before], step),
                               layer_count(step ? trace.empty_clusters[before] : 0, step)};
  if (result.lloyd) {
    row.push_back(fmt::format("{:.6g}", result.lloyd->objective[t]));
    row.push_back(fmt::format("{:.6f}", std::log(result.lloyd->objective[t])));
    row.push_back(fmt::format("{:.3g}", result.difference.centre_difference[t]));
    row.push_back(cat(result.difference.differing_assignments[t]));
  }
  return row;
}

std::string layer_table(const KmeansResult& result) {
  std::vector<std::string> header{"layer", "objective", "ln objective", "moved", "ties", "empty"};
  if (result.lloyd) header.insert(header.end(), {"Lloyd", "ln Lloyd", "centre diff", "other labels"});
  TablePrinter table(header);
  for (std::size_t t = 0; t < result.transformer.objective.size(); ++t) table.add_row(layer_row(result, t));
  return table.text();
}

std::string settings_line(const KmeansResult& result) {
  const KmeansSettings& s = result.settings;
  return fmt::format(
      "{}: {} points, {} dimensions, {} clusters\n{} construction, inverse temperature {}, {} self-attention, {} centre update, {}, start {}, seed {}, {} "
      "threads, {}\n",
      s.file, result.points.values.size(0), result.points.values.size(1), s.clusters, name_in(construction_names(), s.model.construction),
      temperature_name(s.model.inverse_temperature), name_in(self_attention_names(), s.model.self_attention),
      name_in(centre_update_names(), s.model.centre_update), name_of(s.dtype), name_in(start_names(), s.start), s.seed, thread_count(),
      kernels::name_of(kernels::active_isa()));
}

std::string cluster_sizes(const KmeansResult& result) {
  std::vector<index_t> sizes(static_cast<std::size_t>(result.settings.clusters));
  for (const std::int64_t label : result.transformer.labels.back().to_vector<std::int64_t>()) ++sizes[static_cast<std::size_t>(label)];
  std::string text;
  for (std::size_t j = 0; j < sizes.size() && j < 16; ++j) text += cat(j ? " " : "", sizes[j]);
  return text + (sizes.size() > 16 ? " ..." : "");
}

// From the first tie or empty cluster the two may rightly differ, and the reader should know that.
std::string ambiguity_note(const KmeansResult& result) {
  index_t first = first_ambiguous_layer(result.transformer);
  if (result.lloyd) {
    const index_t other = first_ambiguous_layer(*result.lloyd);
    if (first == 0 || (other != 0 && other < first)) first = other;
  }
  if (first == 0) return "";
  return fmt::format(
      "layer {} is the first with a tied nearest centre or an empty cluster: ties are split by the transformer and go to the lowest index in Lloyd;\n"
      "an empty cluster takes a random point in Lloyd, and {} in the transformer\n",
      first, result.settings.model.centre_update == CentreUpdate::linear ? "stays" : "goes to the mean of all points");
}

std::string summary(const KmeansResult& result) {
  std::string text = fmt::format("objective {:.8g} after {} layers in {:.3g} s; cluster sizes {}\n", result.transformer.objective.back(),
                                 result.settings.layers, result.seconds, cluster_sizes(result));
  if (result.lloyd)
    text += fmt::format("Lloyd {:.8g} in {:.3g} s; largest difference of centres {:.3g}, at the end {:.3g}; assignments agree for {:.6g} % of the points\n",
                        result.lloyd->objective.back(), result.lloyd_seconds, result.difference.largest_centre_difference,
                        result.difference.centre_difference.back(), 100 * result.difference.agreement);
  return text + ambiguity_note(result);
}

void add_comparison(JsonResult& json, const KmeansResult& result) {
  json.number("max_centre_difference", result.difference.largest_centre_difference);
  json.number("final_centre_difference", result.difference.centre_difference.back());
  json.number("assignment_agreement", result.difference.agreement);
  json.numbers("centre_difference_trace", result.difference.centre_difference);
  json.set("differing_assignments_trace", result.difference.differing_assignments);
  json.number("lloyd_objective", result.lloyd->objective.back());
  json.numbers("lloyd_log_objective_trace", log_objectives(*result.lloyd));
  json.tensor("lloyd_centres", result.lloyd->centres.back());
  json.number("lloyd_seconds", result.lloyd_seconds);
}

template <class T>
std::string lines_of_numbers(const Tensor& values, std::size_t columns) {
  std::string text;
  std::size_t at = 0;
  for (const T value : values.to_vector<T>()) fmt::format_to(std::back_inserter(text), "{}{}", value, ++at % columns ? ',' : '\n');
  return text;
}

}  // namespace

const Choices<Construction>& construction_names() {
  static const Choices<Construction> names{{"euclidean", Construction::euclidean}, {"dot-product", Construction::dot_product}};
  return names;
}

const Choices<SelfAttention>& self_attention_names() {
  static const Choices<SelfAttention> names{{"identity", SelfAttention::identity}, {"full", SelfAttention::full}};
  return names;
}

const Choices<CentreUpdate>& centre_update_names() {
  static const Choices<CentreUpdate> names{{"linear", CentreUpdate::linear}, {"softmax", CentreUpdate::softmax}};
  return names;
}

const Choices<Start>& start_names() {
  static const Choices<Start> names{{"first", Start::first}, {"random", Start::random}, {"kmeans++", Start::kmeans_plus_plus}, {"farthest", Start::farthest}};
  return names;
}

std::string temperature_name(double inverse_temperature) { return std::isinf(inverse_temperature) ? "inf" : fmt::format("{:g}", inverse_temperature); }

std::string kmeans_command(const KmeansSettings& s) {
  return fmt::format(
      "gradus kmeans run '{}' --clusters {} --construction {} --inverse-temperature {} --layers {} --self-attention {} --centre-update {} --dtype {} --init {} "
      "--seed {}",
      s.file, s.clusters, name_in(construction_names(), s.model.construction), temperature_name(s.model.inverse_temperature), s.layers,
      name_in(self_attention_names(), s.model.self_attention), name_in(centre_update_names(), s.model.centre_update), name_of(s.dtype),
      name_in(start_names(), s.start), s.seed);
}

std::string kmeans_report(const KmeansResult& result) { return settings_line(result) + "\n" + layer_table(result) + "\n" + summary(result); }

std::string kmeans_json(const KmeansResult& result) {
  const KmeansSettings& s = result.settings;
  const kmeans::Trace& trace = result.transformer;
  JsonResult json;
  json.set("seed", s.seed);
  json.number("seconds", result.seconds);
  json.set("file", s.file);
  json.set("points", result.points.values.size(0));
  json.set("dimensions", result.points.values.size(1));
  json.set("clusters", s.clusters);
  json.set("layers", s.layers);
  json.set("dtype", name_of(s.dtype));
  json.set("construction", name_in(construction_names(), s.model.construction));
  json.number("inverse_temperature", s.model.inverse_temperature);
  json.set("self_attention", name_in(self_attention_names(), s.model.self_attention));
  json.set("centre_update", name_in(centre_update_names(), s.model.centre_update));
  json.set("init", name_in(start_names(), s.start));
  json.number("objective", trace.objective.back());
  json.numbers("objective_trace", trace.objective);
  json.numbers("log_objective_trace", log_objectives(trace));
  json.set("moved_centres", trace.moved_centres);
  json.set("tied_points", trace.tied_points);
  json.set("empty_clusters", trace.empty_clusters);
  if (result.lloyd) {
    add_comparison(json, result);
  } else {
    json.absent("max_centre_difference", "not compared: add --compare lloyd");
    json.absent("assignment_agreement", "not compared: add --compare lloyd");
  }
  json.tensor("centres", trace.centres.back());
  json.tensor("labels", trace.labels.back());
  return json.text();
}

std::string array_file(const Tensor& values, const std::string& path) {
  const Tensor dense = contiguous(values);
  if (path.ends_with(".npy"))
    return io::format_npy(dense.shape(), dense.dtype(), {dense.raw(), static_cast<std::size_t>(byte_size(dense.shape(), dense.dtype()))});
  if (dense.dtype() == DType::i64) return lines_of_numbers<std::int64_t>(dense, 1);
  const std::size_t columns = static_cast<std::size_t>(dense.size(1));
  return dense.dtype() == DType::f32 ? lines_of_numbers<float>(dense, columns) : lines_of_numbers<double>(dense, columns);
}

}  // namespace gradus::tools
