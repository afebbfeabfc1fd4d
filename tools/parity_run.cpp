// gradus parity run: the sparse-XOR transformer over seeds.
#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>

#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/outputs.hpp"
#include "tools/parity_results.hpp"

namespace gradus::tools {
namespace {

struct ParityOptions {
  CommonOptions common;
  ParitySettings settings;
  std::string samples = "population", eta = "auto", plot;
};

// The whole of `text` as a number, or nothing.
template <class T>
std::optional<T> parsed(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

void read_samples(const std::string& text, parity::TrainOptions& train) {
  if (text == "population") return;
  const auto samples = parsed<index_t>(text);
  if (!samples || *samples < 1) throw ValueError("--samples", cat("is '", text, "'"), "give population or a number of samples");
  train.samples = *samples;
}

void read_step_size(const std::string& text, parity::TrainOptions& train) {
  if (text == "auto") return;
  if (text == "oracle") {
    train.step_size = parity::StepSize::oracle;
    return;
  }
  const auto eta = parsed<double>(text);
  if (!eta || !std::isfinite(*eta) || !(*eta > 0)) throw ValueError("--eta", cat("is '", text, "'"), "give auto, oracle or a finite number > 0");
  train.step_size = parity::StepSize::fixed;
  train.eta = *eta;
}

std::string command_of(const ParitySettings& s) {
  return cat("gradus parity run --bits ", s.bits, " --embedding ", s.embedding, " --heads ", s.heads, " --steps ", s.train.steps, " --seed ", s.train.seed);
}

std::string result_json(const ParitySettings& settings, const std::vector<ParityRun>& runs, double seconds) {
  JsonResult json;
  json.set("seed", settings.train.seed);
  json.set("bits", settings.bits);
  json.set("embedding", settings.embedding);
  json.set("heads", settings.heads);
  json.set("trainable_parameters", settings.heads * settings.embedding);
  json.set("steps", settings.train.steps);
  json.number("seconds", seconds);
  json.number("success_rate", success_rate(runs));
  json.set("seeds", parity_json(runs));
  return json.text();
}

int run(const ParityOptions& options) {
  ParitySettings settings = options.settings;
  read_samples(options.samples, settings.train);
  read_step_size(options.eta, settings.train);
  if (settings.train.fresh && settings.train.samples == 0) throw ValueError("--fresh", "needs a number of samples", "give --samples N");
  apply_common_options(options.common);
  Outputs outputs(options.common.force);
  outputs.claim("--plot", options.plot);
  outputs.claim("--json", options.common.json);
  // Wrong sizes are bad usage, found before the work.
  if (settings.heads > settings.bits) throw ValueError("--heads", cat("is ", settings.heads, " of ", settings.bits, " bits"), "give at most as many as bits");
  if (settings.heads != 2 && settings.train.samples == 0)
    throw ValueError("--heads", cat("is ", settings.heads, " on the population"), "its closed form is that of two heads; give --samples N");
  if (settings.heads != 2 && settings.train.start == parity::Start::anti_symmetric)
    throw ValueError("--start", cat("is anti-symmetric for ", settings.heads, " heads"), "that is theta and -theta: two heads; give --start independent");
  if (settings.train.batch > settings.train.samples) throw ValueError("--batch", cat("is ", settings.train.batch), "give at most as many as --samples");
  return work([&] {
    const auto start = std::chrono::steady_clock::now();
    std::vector<ParityRun> runs;
    {
      Progress progress("parity", "step", settings.train.steps * settings.seeds, options.common.quiet);
      for (int i = 0; i < settings.seeds; ++i)
        runs.push_back(run_parity(settings, settings.train.seed + static_cast<std::uint64_t>(i), [&] { progress.advance(); }));
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!options.common.quiet && !outputs.use_standard_output())
      print(cat(parity_table(runs), "\n", settings.heads * settings.embedding, " trainable parameters, seeds from ", settings.train.seed, ", success rate ",
                success_rate(runs), "\n"));
    if (outputs.wanted("--plot"))
      outputs.set("--plot", plot::to_svg({.title = cat("Sparse XOR of ", settings.bits, " bits, seed ", runs.front().seed),
                                          .command = command_of(settings),
                                          .panels = parity_panels(runs.front())}));
    if (outputs.wanted("--json")) outputs.set("--json", result_json(settings, runs, seconds));
    outputs.commit();
    return exit_success;
  });
}

void add_sizes(CLI::App& command, ParitySettings& s) {
  const CLI::Range sizes(index_t{1}, index_t{1} << 24);
  command.add_option("--bits", s.bits, "Bits of an input, d in the paper")->type_name("D")->check(sizes)->capture_default_str();
  command.add_option("--embedding", s.embedding, "Length of the frozen embeddings of positions, m; a head has as many trainable parameters")
      ->type_name("M")
      ->check(sizes)
      ->capture_default_str();
  command.add_option("--heads", s.heads, "Hidden bits, one head each; other than 2 needs samples and an independent start")
      ->type_name("K")
      ->check(CLI::Range(index_t{1}, index_t{16}))
      ->capture_default_str();
}

}  // namespace

void add_parity_run_command(CLI::App& parity_app, Action& action) {
  CLI::App* command =
      parity_app.add_subcommand("run", "Find hidden bits by gradient steps of the sparse-XOR transformer, one problem a seed (Theorem 2: one step)");
  const auto options = std::make_shared<ParityOptions>();
  options->settings.seeds = 10;
  parity::TrainOptions& train = options->settings.train;
  add_sizes(*command, options->settings);
  add_choice(*command, "--attention", train.attention, attention_choices(),
             "Map from scores to attention; linear and erf work position by position (Section 3.2)");
  command->add_option("--samples", options->samples, "The population's gradient in closed form, or that of N random inputs")
      ->type_name("population|N")
      ->capture_default_str();
  command->add_option("--batch", train.batch, "Samples a step, drawn anew in every epoch; 0: all of them")
      ->type_name("B")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--fresh", train.fresh, "Every step sees samples that no step saw before (default: the same set)");
  command
      ->add_option("--eta", options->eta,
                   "Step size: auto is 5 d^2 sqrt(m) ln d, oracle the shortest that gathers 1 - 1e-4 of the attention where the margins hold")
      ->type_name("auto|oracle|X")
      ->capture_default_str();
  command->add_option("--steps", train.steps, "Gradient steps; the theorem takes one")
      ->type_name("S")
      ->check(CLI::Range(index_t{1}, index_t{100000000}))
      ->capture_default_str();
  command->add_option("--seeds", options->settings.seeds, "Problems to run, seeds counted up from --seed")
      ->type_name("R")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  add_choice(*command, "--start", train.start, start_choices(), "First queries: theta and -theta as in the paper, or each on its own");
  command->add_option("--plot", options->plot, "Draw attention before and after and the loss by step, of the first seed (default: none)")->type_name("OUT.svg");
  add_seed_option(*command, train.seed);
  add_common_options(*command, options->common);
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace gradus::tools
