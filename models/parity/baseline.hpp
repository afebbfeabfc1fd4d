#pragma once
// What the two heads are compared with: a network of one hidden layer that sees all signs, and a linear classifier on the frozen
// embeddings, which cannot tell the classes apart.

#include <functional>

#include "models/parity/problem.hpp"

namespace gradus::parity {

struct NetworkOptions {
  index_t width = 64;  ///< of the hidden layer, relu
  double learning_rate = 1e-3;
  index_t batch = 256, most_batches = 20000;  ///< fresh samples each
  double target_loss = 0.05;                  ///< training ends when the loss on 4,096 fresh samples, looked at every 250 batches, is below
  std::uint64_t seed = 1;
};
struct NetworkResult {
  index_t batches = 0;
  double loss = 0, accuracy = 0;  ///< on the fresh samples, at the end
  index_t parameters = 0;
  bool reached = false;
};
/// Trains D -> width -> 1 with relu on mean squares by Adam, in f32. `after_batch` is called after each batch.
[[nodiscard]] NetworkResult train_network(const Problem& problem, const NetworkOptions& options, const std::function<void()>& after_batch = {});

struct LinearResult {
  double loss = 0, accuracy = 0;  ///< on fresh samples
};
/// The best linear function of the mean embedding (1/D) sum_i x_i v_i on `samples` samples, by 500 steps of Adam.
[[nodiscard]] LinearResult train_linear(const Problem& problem, index_t samples, std::uint64_t seed);

}  // namespace gradus::parity
