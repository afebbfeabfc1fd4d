#pragma once
// Runs of the sparse-XOR transformer over seeds: what was asked, what came out, as table, JSON and pictures.

#include <string>
#include <vector>

#include "models/parity/train.hpp"
#include "tools/json_output.hpp"
#include "tools/options.hpp"
#include "tools/plot.hpp"

namespace gradus::tools {

struct ParitySettings {
  index_t bits = 64, embedding = 32, heads = 2;
  parity::TrainOptions train;  ///< its seed is that of the first run
  int seeds = 10;
};

struct ParityRun {
  std::uint64_t seed = 0;
  parity::Problem problem;
  parity::TrainResult result;
  double predicted_margin = 0, measured_margin = 0;  ///< of the first head's own bit over the other one's, after the first step; two heads
  bool success = false;
};

/// A run succeeds when every head attends to another hidden bit and the loss at the end is below this.
inline constexpr double success_loss = 0.05;

[[nodiscard]] const Choices<parity::Attention>& attention_choices();
[[nodiscard]] const Choices<parity::Start>& start_choices();

/// Problem and training of one seed.
[[nodiscard]] ParityRun run_parity(const ParitySettings& settings, std::uint64_t seed, const std::function<void()>& after_step = {});
[[nodiscard]] std::string parity_table(const std::vector<ParityRun>& runs);
[[nodiscard]] Json parity_json(const std::vector<ParityRun>& runs);
/// Attention of every head before and after, and the loss by step, of one run.
[[nodiscard]] std::vector<plot::Panel> parity_panels(const ParityRun& run);
[[nodiscard]] double success_rate(const std::vector<ParityRun>& runs);

}  // namespace gradus::tools
