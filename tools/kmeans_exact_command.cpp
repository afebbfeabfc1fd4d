// gradus reproduce kmeans-exact: Figure 3 with our own random numbers, as a table, JSON and a page with pictures.
#include <chrono>
#include <cmath>
#include <memory>

#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/kmeans_exact_pictures.hpp"
#include "tools/outputs.hpp"
#include "tools/report.hpp"
#include "tools/table_print.hpp"

namespace gradus::tools {
namespace {

struct ExactOptions {
  CommonOptions common;
  std::uint64_t seed = 1;
  int seeds = 20;
  std::string report;
};

constexpr const char* setting_text =
    "Five clusters in the plane, ten layers, first centres the first five points, f64. Published switches: 10,000 points, identity self-attention, normalised "
    "linear "
    "centre update. All in full: 1,000 points, four softmax attentions. gamma is the inverse temperature of the attentions, inf the limiting map.";
constexpr const char* source_text =
    "Measured is the median over the seeds where the row says nothing else. Published: printed in the paper. Derived: found by running the published recipe "
    "again on the "
    "published points. The points here are other draws of the same mixture, so the finals of a run are compared with Lloyd's on the same points.";

std::string rows_text(const std::vector<ReproductionRow>& rows) {
  TablePrinter table(reproduction_header());
  std::string group;  // construction and switches: the name up to the temperature
  for (const ReproductionRow& row : rows) {
    const std::string own = row.name.substr(0, row.name.find(" gamma"));
    if (own != group && !table.empty()) table.add_rule();
    group = own;
    table.add_row(reproduction_cells(row));
  }
  return table.text();
}

std::string exact_json(const ExactOptions& options, const std::vector<ReproductionRow>& rows, double seconds) {
  JsonResult json;
  json.set("seed", options.seed);
  json.number("seconds", seconds);
  json.set("rows", reproduction_json(rows));
  return json.text();
}

std::string exact_report(const ExactExperiment& experiment, const std::vector<ReproductionRow>& rows, double seconds) {
  Report report("The k-means transformer against Lloyd's algorithm",
                cat("gradus reproduce kmeans-exact --seeds ", experiment.seeds, " --seed ", experiment.first_seed));
  report.paragraph(setting_text);
  report.heading("Objective per layer");
  report.figure(plot::to_svg(exact_traces(experiment)));
  report.heading("Centre paths and assignments");
  report.figure(plot::to_svg(exact_example(experiment)), "After Figure 3 of the paper.");
  report.heading("Distribution over the seeds");
  report.figure(plot::to_svg(exact_distributions(experiment)));
  report.heading("Published and measured");
  report.paragraph(source_text);
  add_reproduction_table(report, rows, cat(experiment.seeds, " seeds from ", experiment.first_seed, ", ", std::lround(seconds), " s"));
  return report.html();
}

int reproduce(const ExactOptions& options) {
  apply_common_options(options.common);
  Outputs outputs(options.common.force);
  outputs.claim("--report", options.report);
  outputs.claim("--json", options.common.json);
  return work([&] {
    const auto start = std::chrono::steady_clock::now();
    const auto runs = static_cast<index_t>(exact_settings().size()) * options.seeds;
    ExactExperiment experiment;
    {
      Progress progress("kmeans-exact", "run", runs, options.common.quiet);
      experiment = run_exact_experiment(options.seed, options.seeds, [&] { progress.advance(); });
    }
    const std::vector<ReproductionRow> rows = exact_rows(experiment);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!options.common.quiet && !outputs.use_standard_output())
      print(
          cat(setting_text, "\n", source_text, "\n\n", rows_text(rows), "\n", options.seeds, " seeds from ", options.seed, ", ", std::lround(seconds), " s\n"));
    if (outputs.wanted("--report")) outputs.set("--report", exact_report(experiment, rows, seconds));
    if (outputs.wanted("--json")) outputs.set("--json", exact_json(options, rows, seconds));
    outputs.commit();
    require_within(rows);
    return exit_success;
  });
}

}  // namespace

void add_kmeans_exact_command(CLI::App& reproduce_app, Action& action) {
  CLI::App* command =
      reproduce_app.add_subcommand("kmeans-exact",
                                   "The numerical validation of the k-means transformer (Figure 3): both constructions at inverse temperatures 1 to 10000 and "
                                   "in the limit, beside Lloyd");
  const auto options = std::make_shared<ExactOptions>();
  command->add_option("--seeds", options->seeds, "Seeds to run, counted up from --seed")->type_name("N")->check(CLI::Range(1, 10000))->capture_default_str();
  command->add_option("--report", options->report, "Write a page with tables and pictures (default: none)")->type_name("OUT.html");
  add_seed_option(*command, options->seed);
  add_common_options(*command, options->common);
  command->callback([options, &action] { action = [options] { return reproduce(*options); }; });
}

}  // namespace gradus::tools
