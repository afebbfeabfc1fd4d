#pragma once
// Training the sparse-XOR transformer by gradient steps: the step size that one step needs, the conditions under which it works
// (2.3 of the paper's analysis), and runs of any number of steps on the population or on samples.

#include <functional>
#include <limits>
#include <optional>

#include "models/parity/model.hpp"

namespace gradus::parity {

/// What G = -dL/dtheta_h of every head says about one long step: the score that a step adds to position i is v_i . G. The head ends
/// at the position with the greatest, if the step is long enough.
struct Margins {
  std::vector<index_t> winner;  ///< argmax_i v_i . G_h of each head
  std::vector<double> lead;     ///< min over i != winner of (v_winner - v_i) . G_h
  bool holds = false;           ///< every head wins another position of the support
};
[[nodiscard]] Margins margins_of(const Problem& problem, const Tensor& descent);

/// The shortest step after which every head has at least 1 - delta of its mass on its winner:
/// max over heads and i != s of [ln((D - 1) / delta) - (v_s - v_i) . theta] / [(v_s - v_i) . G]. None when the margins do not hold.
[[nodiscard]] std::optional<double> oracle_step(const Problem& problem, const Tensor& queries, const Tensor& descent, double delta);
/// 5 D^2 sqrt(M) ln D.
[[nodiscard]] double recommended_step(index_t bits, index_t embedding);

enum class StepSize { automatic, oracle, fixed };

struct TrainOptions {
  Attention attention = Attention::softmax;
  Start start = Start::anti_symmetric;
  Tensor queries{};                          ///< given initial queries (H, M); none: from `start`
  index_t samples = 0;                       ///< 0: the population, two heads; else rows of packed signs
  index_t batch = 0;                         ///< rows a step, drawn anew from the samples in every epoch; 0: all of them
  bool fresh = false;                        ///< every step sees samples that no step saw before
  StepSize step_size = StepSize::automatic;  ///< automatic: recommended_step; oracle: oracle_step, else recommended_step
  double eta = 0;                            ///< of StepSize::fixed; finite and > 0
  double delta = 1e-4;                       ///< mass that the oracle's step may leave elsewhere
  index_t steps = 1;
  std::uint64_t seed = 1;
};

struct TrainResult {
  double loss_before = 0, loss_after = 0;  ///< of the population; more than two heads: of 65,536 fresh samples
  Reading before, after;
  Tensor gamma_before, gamma_after;  ///< (H, D)
  Tensor queries;                    ///< (H, M) at the end
  Margins margins;                   ///< of the first step's descent
  double eta = 0;
  std::vector<double> losses;  ///< before each step, and at the end
};
/// Gradient descent theta -= eta dL/dtheta. `after_step` is called after each step. ValueError for options that make no sense.
[[nodiscard]] TrainResult train(const Problem& problem, const TrainOptions& options, const std::function<void()>& after_step = {});

/// Loss and gradient (H, M) of queries on samples: mean (f - y)^2 by one pass over the bits.
struct Sampled {
  double loss = 0;
  Tensor gradient;
};
[[nodiscard]] Sampled sampled(const Problem& problem, const Tensor& queries, Attention attention, const Tensor& signs, const Tensor& targets);

}  // namespace gradus::parity
