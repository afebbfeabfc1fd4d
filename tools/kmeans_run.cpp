// gradus kmeans run: cluster a file of points with the transformer, beside Lloyd when asked.
#include <chrono>
#include <memory>

#include "engine/core/parallel.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/kmeans_plot.hpp"
#include "tools/kmeans_results.hpp"
#include "tools/outputs.hpp"

namespace gradus::tools {
namespace {

struct RunOptions {
  CommonOptions common;
  KmeansSettings settings;
  io::TableOptions table;
  bool compare_lloyd = false, allow_full = false;
  std::string labels, centres, plot;
};

// Streams of the seed: what each part draws does not depend on the others.
enum Stream : std::uint64_t { start_stream = 1, lloyd_stream };

void add_model_options(CLI::App& command, RunOptions& options) {
  auto& [file, clusters, layers, model, start, dtype, seed] = options.settings;
  command.add_option("FILE", file, "Points: csv, tsv, whitespace text or npy, plain or gzipped")->required();
  command.add_option("--clusters,-k", clusters, "Number of clusters, 1 to the number of points (required)")->type_name("K")->required();
  add_choice(command, "--construction", model.construction, construction_names(),
             "Scores of the attentions: euclidean is Theorem 2.1 (Eq. 5), dot-product Theorem 2.2, whose tokens hold squared norms");
  add_positive_or_infinite(command, "--inverse-temperature", model.inverse_temperature,
                           "Factor of the scores in the softmax; inf is the limiting map, for which a layer is exactly an iteration of Lloyd");
  command.add_option("--layers", layers, "Layers, each one iteration; the published run has 10 (Figure 3)")
      ->type_name("T")
      ->check(CLI::Range(index_t{0}, index_t{1000000}))
      ->capture_default_str();
  add_choice(command, "--self-attention", model.self_attention, self_attention_names(),
             "identity lets every token attend to itself alone, as the published run does; full needs N x N scores");
  command.add_flag(
      "--allow-full", options.allow_full,
      cat("Full self-attention also for more than ", kmeans::full_attention_limit, " points (default: refused, since the scores take 8 N^2 bytes in f64)"));
  add_choice(command, "--centre-update", model.centre_update, centre_update_names(),
             "linear is normalised linear attention, as in the published run (an empty cluster's centre stays); softmax uses the map of the other "
             "attentions (it goes to the mean of all points)");
  add_choice<DType>(command, "--dtype", dtype, {{"f32", DType::f32}, {"f64", DType::f64}},
                    "Precision; f64 since equality with Lloyd is the point, f32 is faster");
  add_choice(command, "--init", start, start_names(),
             "First centres: the first K points (as published), K random ones, k-means++, or the farthest point each time");
  add_seed_option(command, seed);
}

void add_result_options(CLI::App& command, RunOptions& options) {
  add_choice<bool>(command, "--compare", options.compare_lloyd, {{"none", false}, {"lloyd", true}}, "Run Lloyd's algorithm from the same start beside it");
  command.add_option("--labels", options.labels, "Write the cluster of every point, from 0, one a line; npy when the name ends in .npy (default: none)")
      ->type_name("OUT");
  command.add_option("--centres", options.centres, "Write the centres, one a line, comma-separated; npy when the name ends in .npy (default: none)")
      ->type_name("OUT");
  command.add_option("--plot", options.plot, "Draw points, paths of the centres and the objective per layer (default: none)")->type_name("OUT.svg");
  add_table_options(command, options.table);
  add_common_options(command, options.common);
}

void require_feasible(const RunOptions& options, index_t points) {
  const bool full = options.settings.model.self_attention == kmeans::SelfAttention::full;
  if (full && points > kmeans::full_attention_limit && !options.allow_full)
    throw ValueError("--self-attention full",
                     cat("needs ", points, " x ", points, " scores, and more than ", kmeans::full_attention_limit, " points are refused"),
                     "use identity, which the published run does, or add --allow-full");
}

template <class F>
kmeans::Trace timed(const std::string& what, const RunOptions& options, double& seconds, F&& run) {
  Progress progress(what, "layer", options.settings.layers, options.common.quiet);
  const auto start = std::chrono::steady_clock::now();
  kmeans::Trace trace = run([&](index_t) { progress.advance(); });
  seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return trace;
}

KmeansResult cluster(const RunOptions& options, Points points) {
  const KmeansSettings& settings = options.settings;
  const Random random(settings.seed);
  KmeansResult result{.settings = settings, .points = std::move(points), .transformer = {}, .lloyd = {}, .difference = {}};
  const Tensor& values = result.points.values;
  const Tensor start = kmeans::initial_centres(values, settings.clusters, settings.start, random.fork(start_stream));
  result.transformer = timed("transformer", options, result.seconds, [&](const auto& report) {
    return kmeans::run_transformer(values, start, settings.layers, settings.model, options.compare_lloyd, report);
  });
  if (!options.compare_lloyd) return result;
  result.lloyd = timed("lloyd", options, result.lloyd_seconds,
                       [&](const auto& report) { return kmeans::lloyd(values, start, settings.layers, random.fork(lloyd_stream), true, report); });
  result.difference = compare(result.transformer, *result.lloyd);
  return result;
}

void write_results(const KmeansResult& result, const RunOptions& options, Outputs& outputs) {
  if (!options.common.quiet && !outputs.use_standard_output()) print(kmeans_report(result));
  if (outputs.wanted("--labels")) outputs.set("--labels", array_file(result.transformer.labels.back(), options.labels));
  if (outputs.wanted("--centres")) outputs.set("--centres", array_file(result.transformer.centres.back(), options.centres));
  if (outputs.wanted("--plot")) outputs.set("--plot", kmeans_plot(result));
  if (outputs.wanted("--json")) outputs.set("--json", kmeans_json(result));
  outputs.commit();
}

int run(const RunOptions& options) {
  apply_common_options(options.common);
  Outputs outputs(options.common.force, {options.settings.file});
  outputs.claim("--labels", options.labels);
  outputs.claim("--centres", options.centres);
  outputs.claim("--plot", options.plot);
  outputs.claim("--json", options.common.json);
  Points points = read_points(options.settings.file, options.table, options.settings.dtype);
  kmeans::check_problem(points.values, options.settings.clusters);
  require_feasible(options, points.values.size(0));
  return work([&] {
    write_results(cluster(options, std::move(points)), options, outputs);
    return exit_success;
  });
}

}  // namespace

void add_kmeans_run_command(CLI::App& kmeans, Action& action) {
  CLI::App* command = kmeans.add_subcommand("run", "Cluster a file of points; one layer of the transformer is one iteration of Lloyd's algorithm");
  const auto options = std::make_shared<RunOptions>();
  add_model_options(*command, *options);
  add_result_options(*command, *options);
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace gradus::tools
