#include "tools/parity_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "tools/table_print.hpp"

namespace gradus::tools {
namespace {

// Score of the first head at its own bit less that at the other's: Delta (1 + 4 eta / D^2) to first order (2.3).
void add_margins(const ParitySettings& settings, ParityRun& run) {
  if (settings.heads != 2 || settings.train.attention != parity::Attention::softmax) return;
  const parity::TrainResult& r = run.result;
  const auto& support = run.problem.support;
  const auto& masses = r.after.masses;
  const bool first_takes_first = masses[0] >= masses[1];
  const index_t own = support[first_takes_first ? 0 : 1], other = support[first_takes_first ? 1 : 0];
  const auto margin = [&](const Tensor& queries) {
    const Tensor scores = matmul(queries, transpose(run.problem.positions));
    return scores.at({0, own}) - scores.at({0, other});
  };
  const double d = static_cast<double>(settings.bits);
  const Tensor start = settings.train.queries.defined() ? settings.train.queries : initial_queries(run.problem, settings.train.start, run.seed);
  run.predicted_margin = margin(start) * (1 + 4 * r.eta / (d * d));
  run.measured_margin = margin(r.queries);
}

std::string number(double value) { return fmt::format("{:.3g}", value); }

std::string heads_text(const ParityRun& run) {
  std::string text;
  const std::size_t heads = run.problem.support.size();
  for (std::size_t h = 0; h < heads; ++h) {
    const index_t chosen = run.result.after.chosen[h];
    const auto at = std::find(run.problem.support.begin(), run.problem.support.end(), chosen);
    text += h > 0 ? ", " : "";
    text += fmt::format("{}", chosen);
    if (at == run.problem.support.end()) text += " (none)";
    else text += fmt::format(" ({:.4f})", run.result.after.masses[h * heads + static_cast<std::size_t>(at - run.problem.support.begin())]);
  }
  return text;
}

std::string support_text(const ParityRun& run) {
  std::string text;
  for (const index_t s : run.problem.support) text += (text.empty() ? "" : ", ") + std::to_string(s);
  return text;
}

plot::Series attention_series(const ParityRun& run, const Tensor& gamma, index_t head) {
  const index_t d = run.problem.bits();
  plot::Series series{.name = cat("head ", head + 1), .kind = plot::Series::Kind::line, .x = {}, .y = {}};
  for (index_t i = 0; i < d; ++i) {
    series.x.push_back(static_cast<double>(i));
    series.y.push_back(gamma.at({head, i}));
  }
  return series;
}

plot::Panel attention_panel(const ParityRun& run, const Tensor& gamma, const char* when) {
  plot::Panel panel;
  panel.title = cat("Attention ", when, ", hidden bits ", support_text(run));
  panel.x = {.label = "position", .integers = true};
  panel.y = {.label = "attention", .includes_zero = true};
  for (index_t h = 0; h < run.problem.heads(); ++h) panel.series.push_back(attention_series(run, gamma, h));
  return panel;
}

}  // namespace

const Choices<parity::Attention>& attention_choices() {
  static const Choices<parity::Attention> choices{
      {"softmax", parity::Attention::softmax}, {"linear", parity::Attention::linear}, {"erf", parity::Attention::erf}};
  return choices;
}
const Choices<parity::Start>& start_choices() {
  static const Choices<parity::Start> choices{{"anti-symmetric", parity::Start::anti_symmetric}, {"independent", parity::Start::independent}};
  return choices;
}

ParityRun run_parity(const ParitySettings& settings, std::uint64_t seed, const std::function<void()>& after_step) {
  ParityRun run{.seed = seed, .problem = parity::make_problem(settings.bits, settings.embedding, settings.heads, seed), .result = {}};
  parity::TrainOptions options = settings.train;
  options.seed = seed;
  run.result = parity::train(run.problem, options, after_step);
  run.success = run.result.after.specialised && run.result.loss_after < success_loss;
  add_margins(settings, run);
  return run;
}

double success_rate(const std::vector<ParityRun>& runs) {
  const auto count = std::count_if(runs.begin(), runs.end(), [](const ParityRun& run) { return run.success; });
  return runs.empty() ? 0 : static_cast<double>(count) / static_cast<double>(runs.size());
}

std::string parity_table(const std::vector<ParityRun>& runs) {
  TablePrinter table({"seed", "hidden bits", "loss before", "loss after", "worst case", "heads at (attention)", "step size", "margins hold", "margin predicted",
                      "margin measured", "success"});
  for (const ParityRun& run : runs) {
    const parity::TrainResult& r = run.result;
    table.add_row({std::to_string(run.seed), support_text(run), number(r.loss_before), number(r.loss_after), number(r.after.worst_case_loss), heads_text(run),
                   number(r.eta), r.margins.holds ? "yes" : "no", number(run.predicted_margin), number(run.measured_margin), run.success ? "yes" : "no"});
  }
  return table.text();
}

Json parity_json(const std::vector<ParityRun>& runs) {
  Json list = Json::array();
  for (const ParityRun& run : runs) {
    const parity::TrainResult& r = run.result;
    const std::size_t heads = run.problem.support.size();
    Json attention = Json::array();
    for (std::size_t h = 0; h < heads; ++h)
      attention.push_back(std::vector<double>(r.after.masses.begin() + static_cast<std::ptrdiff_t>(h * heads),
                                              r.after.masses.begin() + static_cast<std::ptrdiff_t>((h + 1) * heads)));
    list.push_back({{"seed", run.seed},
                    {"support", run.problem.support},
                    {"loss_before", number_or_null(r.loss_before)},
                    {"loss_after", number_or_null(r.loss_after)},
                    {"worst_case_loss", number_or_null(r.after.worst_case_loss)},
                    {"attention", attention},
                    {"heads_at", r.after.chosen},
                    {"specialised", r.after.specialised},
                    {"margin_condition", r.margins.holds},
                    {"margin_predicted", number_or_null(run.predicted_margin)},
                    {"margin_measured", number_or_null(run.measured_margin)},
                    {"step_size", number_or_null(r.eta)},
                    {"success", run.success}});
  }
  return list;
}

std::vector<plot::Panel> parity_panels(const ParityRun& run) {
  plot::Panel losses;
  losses.title = cat("Loss by step, seed ", run.seed);
  losses.x = {.label = "step", .integers = true};
  losses.y = {.label = "loss", .scale = plot::Scale::log};
  plot::Series series{.name = "", .kind = plot::Series::Kind::line, .x = {}, .y = run.result.losses};
  for (std::size_t i = 0; i < series.y.size(); ++i) series.x.push_back(static_cast<double>(i));
  losses.series.push_back(std::move(series));
  return {attention_panel(run, run.result.gamma_before, "before"), attention_panel(run, run.result.gamma_after, "after"), losses};
}

}  // namespace gradus::tools
