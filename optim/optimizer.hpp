#pragma once
// Optimisers: they update a ParameterSet in place and keep their state in it, so that one save() holds everything a resumed
// training needs.

#include <memory>
#include <string>

#include "engine/autograd/tape.hpp"

namespace gradus {

/// The gradients of a parameter set, in its order.
using GradientList = std::vector<Tensor, PoolAllocator<Tensor>>;

/// What a backward pass gave to watched parameters, for clipping or accumulation. The tensors may share storage with each other
/// and with the tape: replace an entry, never write into it.
[[nodiscard]] GradientList gradients_of(const WatchedParameters& watched, const Gradients& gradients);

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One update of every parameter, from the gradients of a backward pass over `watched` (the same set, put on the tape). Runs
  /// under a flush guard: denormal moments become zero. The set must match; otherwise a ValueError and nothing changes.
  void step(ParameterSet& parameters, const WatchedParameters& watched, const Gradients& gradients);
  /// The same from a list: one gradient a parameter, of its shape and dtype; otherwise an error and nothing changes.
  void step(ParameterSet& parameters, const GradientList& gradients);
  /// Updates so far.
  [[nodiscard]] std::int64_t steps() const noexcept { return steps_; }
  /// "sgd", "adam", "adamw", "rmsprop".
  [[nodiscard]] virtual const char* name() const noexcept = 0;

  /// Step size; may be changed at any time. Must be finite and > 0, else a ValueError.
  void set_learning_rate(double rate);
  [[nodiscard]] double learning_rate() const noexcept { return rate_; }

  /// Step count, step size and all other settings, as tensors; the moments are in ParameterSet::save(). A restored optimiser
  /// continues bit for bit, whatever it was constructed with.
  [[nodiscard]] NamedTensors save() const;
  /// Restores what save() gave. Another optimiser's state is a ValueError and changes nothing.
  void load(const NamedTensors& saved);

 protected:
  explicit Optimizer(double rate);
  virtual void update(ParameterSet& parameters, int i, const Tensor& gradient) = 0;
  /// The settings by name, for save and load.
  [[nodiscard]] virtual std::vector<std::pair<std::string, double*>> settings() = 0;

 private:
  double rate_;
  std::int64_t steps_ = 0;
};

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0;      ///< in [0, 1)
  bool nesterov = false;    ///< needs momentum
  double weight_decay = 0;  ///< L2: added to the gradient as decay * w
};
/// g = gradient + decay w; m = momentum m + g (m = g first); w -= rate * (nesterov ? g + momentum m : m).
[[nodiscard]] std::unique_ptr<Optimizer> make_sgd(const SgdOptions& options = {});

struct AdamOptions {
  double learning_rate = 0.001;
  double beta1 = 0.9, beta2 = 0.999;  ///< in [0, 1)
  double epsilon = 1e-8;              ///< >= 0, added outside the root
  double weight_decay = 0;            ///< adam: added to the gradient; adamw: w *= 1 - rate * decay first
};
/// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w -= rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + epsilon).
[[nodiscard]] std::unique_ptr<Optimizer> make_adam(const AdamOptions& options = {});
/// The same with decoupled weight decay.
[[nodiscard]] std::unique_ptr<Optimizer> make_adamw(const AdamOptions& options = {});

struct RmspropOptions {
  double learning_rate = 0.01;
  double alpha = 0.99;      ///< in [0, 1): how slowly the mean square forgets
  double epsilon = 1e-8;    ///< >= 0, added outside the root
  double weight_decay = 0;  ///< L2: added to the gradient as decay * w
  double momentum = 0;      ///< in [0, 1)
  bool centered = false;    ///< divide by the standard deviation instead of the root mean square
};
/// s = alpha s + (1 - alpha) g^2; centred: a = alpha a + (1 - alpha) g, v = max(s - a^2, 0), else v = s;
/// b = momentum b + g / (sqrt(v) + epsilon); w -= rate b.
[[nodiscard]] std::unique_ptr<Optimizer> make_rmsprop(const RmspropOptions& options = {});

}  // namespace gradus
