// gradus reproduce parity: the sparse-XOR transformer against its theorem, as a table, JSON and a page with pictures.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <memory>

#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/outputs.hpp"
#include "tools/parity_experiments.hpp"
#include "tools/parity_results.hpp"
#include "tools/report.hpp"
#include "tools/table_print.hpp"

namespace gradus::tools {
namespace {

struct ReproduceOptions {
  CommonOptions common;
  ParityPlan plan;
  std::string report;
};

constexpr const char* source_text =
    "Published stands for what an independent derivation of the theorem's mathematics gives where it says (derived); the paper prints no numbers for these "
    "settings. Theorem 2: one gradient step with polylog(d) parameters; Corollary 3: d^4 polylog(d) samples suffice, which is loose.";

std::string budget_text(const ParityPlan& plan) {
  return fmt::format(
      "Parameters at equal success (loss < 0.05 on 4,096 fresh inputs). The network d -> width -> 1 (relu) gets Adam, step sizes 0.03, 0.01 and 0.003, widths "
      "16 "
      "to 128 in turn, and up to {} fresh mini-batches of 256; the narrowest that succeeds is shown, or the best if none does.",
      plan.quick ? "4,000" : "20,000");
}

std::string command_of(const ParityPlan& plan) { return cat("gradus reproduce parity", plan.quick ? " --quick" : "", " --seed ", plan.seed); }

constexpr double least_drawn_loss = 1e-16;

plot::Series share_series(const std::string& name, const std::vector<SuccessCount>& counts, index_t bits, index_t embedding) {
  plot::Series series{.name = name, .kind = plot::Series::Kind::line, .x = {}, .y = {}};
  for (const SuccessCount& c : counts)
    if (c.bits == bits && c.embedding == embedding) {
      series.x.push_back(c.setting);
      series.y.push_back(c.share());
    }
  return series;
}

plot::Figure success_figure(const ParityExperiment& e) {
  plot::Panel steps, samples;
  steps.title = "One step on the population, d 64, m 32";
  steps.x = {.label = "step size over d^2", .scale = plot::Scale::log};
  steps.y = {.label = "share of seeds with loss < 0.01", .includes_zero = true};
  steps.series.push_back(share_series("measured", e.fixed, 64, 32));
  plot::Series derived = steps.series[0];
  derived.name = "derived";
  for (std::size_t i = 0; i < e.fixed.size(); ++i) derived.y[i] = e.fixed[i].reference;
  steps.series.push_back(std::move(derived));
  samples.title = "One step on samples, of 1000 d^2";
  samples.x = {.label = "samples", .scale = plot::Scale::log};
  samples.y = {.label = "share of seeds with loss < 0.05", .includes_zero = true};
  for (const auto& [d, m] : {std::pair<index_t, index_t>{32, 32}, {64, 32}, {64, 64}, {128, 64}})
    samples.series.push_back(share_series(cat("d ", d, ", m ", m), e.samples, d, m));
  return {.title = "Share of seeds that find both bits", .command = command_of(e.plan), .panels = {steps, samples}, .columns = 2};
}

plot::Figure example_figure(const ParityExperiment& e) {
  std::vector<plot::Panel> panels = parity_panels({.seed = e.plan.seed, .problem = e.example, .result = e.example_run});
  panels.pop_back();
  plot::Panel curves;
  curves.title = "Loss by step, anti-symmetric start, d 64, m 32";
  curves.x = {.label = "step", .integers = true};
  curves.y = {.label = "loss", .scale = plot::Scale::log};
  for (const AttentionOutcome& a : e.attentions) {
    if (a.start != parity::Start::anti_symmetric) continue;
    plot::Series series{.name = attention_choices()[static_cast<std::size_t>(a.attention)].first, .kind = plot::Series::Kind::line, .x = {}, .y = a.curve};
    for (std::size_t i = 0; i < series.y.size(); ++i) {
      series.x.push_back(static_cast<double>(i));
      series.y[i] = std::max(series.y[i], least_drawn_loss);
    }
    curves.series.push_back(std::move(series));
  }
  curves.note = "softmax takes one step; linear and erf the best step size of a grid. Losses below 1e-16 are drawn there.";
  panels.push_back(std::move(curves));
  return {.title = "Attention of both heads before and after one step, and the other attentions", .command = command_of(e.plan), .panels = panels};
}

plot::Figure surface_figure(const ParityExperiment& e) {
  plot::Figure figure{.title = "Loss in the plane of the two gradients", .command = command_of(e.plan), .panels = {}};
  for (const LossSurface& surface : e.surfaces) {
    plot::Panel panel;
    panel.title = attention_choices()[static_cast<std::size_t>(surface.attention)].first + " attention";
    panel.x = {.label = "step of head 1 along its gradient"};
    panel.y = {.label = "step of head 2 along its gradient"};
    panel.heats.push_back(surface.heat);
    panel.note = "The start is the lower left corner; the axes reach three times the best common step, or a quarter of the recommended one for softmax.";
    panel.width = panel.height = 280;
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

std::string tables_text(const ParityExperiment& e, const std::vector<ReproductionRow>& rows) {
  TablePrinter table(reproduction_header()), parameters(parameter_header());
  for (const ReproductionRow& row : rows) table.add_row(reproduction_cells(row));
  for (const ParameterRow& row : e.parameters) parameters.add_row(parameter_cells(row));
  return cat(source_text, "\n\n", table.text(), "\n", budget_text(e.plan), "\n\n", parameters.text());
}

std::string report_html(const ParityExperiment& e, const std::vector<ReproductionRow>& rows, double seconds) {
  Report report("Two hidden bits in one gradient step", command_of(e.plan));
  report.paragraph(source_text);
  report.figure(plot::to_svg(example_figure(e)));
  report.figure(plot::to_svg(success_figure(e)));
  report.figure(plot::to_svg(surface_figure(e)));
  report.heading("Theorem and measured");
  add_reproduction_table(report, rows, cat(std::lround(seconds), " s, seeds from ", e.plan.seed));
  report.heading("Parameters");
  std::vector<std::vector<std::string>> parameters;
  for (const ParameterRow& row : e.parameters) parameters.push_back(parameter_cells(row));
  report.table(parameter_header(), parameters, budget_text(e.plan));
  return report.html();
}

Json parameters_json(const std::vector<ParameterRow>& rows) {
  Json list = Json::array();
  for (const ParameterRow& r : rows)
    list.push_back({{"bits", r.bits},
                    {"ours", r.ours},
                    {"our_loss", number_or_null(r.ours_loss)},
                    {"network", r.network},
                    {"width", r.width},
                    {"batches", r.batches},
                    {"network_loss", number_or_null(r.network_loss)},
                    {"reached", r.reached}});
  return list;
}

int reproduce(const ReproduceOptions& options) {
  apply_common_options(options.common);
  Outputs outputs(options.common.force);
  outputs.claim("--report", options.report);
  outputs.claim("--json", options.common.json);
  return work([&] {
    const auto start = std::chrono::steady_clock::now();
    ParityExperiment e;
    {
      Progress progress("parity", "run", parity_runs(options.plan), options.common.quiet);
      e = run_parity_experiment(options.plan, [&] { progress.advance(); });
    }
    {
      // How many mini-batches it takes is what is measured: the total is the most there can be.
      Progress progress("parity networks", "batch", (options.plan.quick ? 2 * 4000 : 4 * 20000) * 12, options.common.quiet);
      run_parity_networks(e, [&] { progress.advance(); });
    }
    const std::vector<ReproductionRow> rows = parity_rows(e);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!options.common.quiet && !outputs.use_standard_output()) print(cat(tables_text(e, rows), "\n", std::lround(seconds), " s\n"));
    if (outputs.wanted("--report")) outputs.set("--report", report_html(e, rows, seconds));
    if (outputs.wanted("--json")) {
      JsonResult json;
      json.set("seed", options.plan.seed);
      json.number("seconds", seconds);
      json.set("rows", reproduction_json(rows));
      json.set("parameters", parameters_json(e.parameters));
      outputs.set("--json", json.text());
    }
    outputs.commit();
    require_within(rows);
    return exit_success;
  });
}

}  // namespace

void add_reproduce_parity_command(CLI::App& reproduce_app, Action& action) {
  CLI::App* command =
      reproduce_app.add_subcommand("parity",
                                   "Two hidden bits in one gradient step (Theorem 2, Corollary 3, Section 3.2): success against sizes, step sizes and "
                                   "samples, other attentions, parameters of a network");
  const auto options = std::make_shared<ReproduceOptions>();
  command->add_flag("--quick", options->plan.quick, "Fewer seeds, settings and mini-batches, within 30 s (default: everything)");
  command->add_option("--report", options->report, "Write a page with tables and pictures (default: none)")->type_name("OUT.html");
  add_seed_option(*command, options->plan.seed);
  add_common_options(*command, options->common);
  command->callback([options, &action] { action = [options] { return reproduce(*options); }; });
}

}  // namespace gradus::tools
