#pragma once
// The tape: values and steps in execution order, recorded as flat data. Backward is a loop over it; a replay runs it again.

#include <functional>
#include <string_view>
#include <vector>

#include "engine/autograd/observer.hpp"
#include "engine/autograd/parameters.hpp"
#include "engine/core/memory.hpp"

namespace gradus {

class Tape;

using TensorFunction = std::function<Tensor(std::span<const Tensor>)>;
/// Sees the gradient of a named value and may return another of the same shape and dtype; an undefined tensor leaves it as it is.
using GradientHook = std::function<Tensor(const Tensor& gradient)>;

/// What a tape keeps of intermediate values.
enum class Retain : std::uint8_t {
  saved,  ///< what backward needs (training)
  all,    ///< everything, and all gradients (study, edits)
};

struct TapeOptions {
  Retain retain = Retain::saved;
  bool expand = false;  ///< record composite parts of fused ops (scores, weights, ...) instead of one step
};

/// Gradients of one backward pass, kept apart from the tensors.
class Gradients {
 public:
  /// The gradient of a value of the tape: zeros where the loss does not depend on it. A GraphError when it was not kept
  /// (Retain::saved keeps those of variables and parameters only) or the tensor is not on this tape.
  [[nodiscard]] Tensor of(const Tensor& value) const;
  /// Steps whose backward ran.
  [[nodiscard]] std::int64_t steps_visited() const noexcept { return steps_visited_; }

 private:
  friend class TapeState;
  std::vector<Tensor, PoolAllocator<Tensor>> by_id_;
  TapeState* tape_ = nullptr;
  std::uint32_t epoch_ = 0;
  std::int64_t steps_visited_ = 0;
};

struct BackwardOptions {
  bool record = false;  ///< record the backward itself, for second derivatives
  Tensor cotangent{};   ///< dL/dy; needed when y is not one number
};

struct ReplayOptions {
  std::int32_t from_step = 0;
  bool advance_noise = false;  ///< a training replay draws new random numbers, an edit replay reuses them
};

/// Parameters as tensors on a tape, in the order of their set.
class WatchedParameters {
 public:
  [[nodiscard]] const Tensor& operator[](int i) const { return tensors_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const Tensor& operator[](std::string_view name) const { return (*this)[set_->index(name)]; }
  [[nodiscard]] int size() const noexcept { return static_cast<int>(tensors_.size()); }

 private:
  friend class Tape;
  const ParameterSet* set_ = nullptr;
  std::vector<Tensor, PoolAllocator<Tensor>> tensors_;
};

/// Leaves a scope (or resumes recording) when it goes.
class TapeGuard {
 public:
  TapeGuard(TapeGuard&& other) noexcept : tape_(std::exchange(other.tape_, nullptr)), scope_(other.scope_), pauses_(other.pauses_) {}
  TapeGuard& operator=(TapeGuard&&) = delete;
  ~TapeGuard();

 private:
  friend class Tape;
  TapeGuard(TapeState* tape, std::uint32_t scope, bool pauses) : tape_(tape), scope_(scope), pauses_(pauses) {}
  TapeState* tape_;
  std::uint32_t scope_;  // to return to
  bool pauses_;
};

/// A read-only look at one step.
struct StepView {
  const OpDef& op;
  std::string_view scope;
  std::span<const std::int32_t> inputs;  ///< value ids
  std::int32_t first_output;             ///< value id; the others follow
  int outputs;
};

class Tape {
 public:
  explicit Tape(TapeOptions options = {});
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Puts a tensor on the tape as a differentiable leaf.
  [[nodiscard]] Tensor variable(const Tensor& value, std::string_view name = "");
  /// Puts a tensor on the tape as a leaf without gradient, which a replay may be given anew (data, temperatures).
  [[nodiscard]] Tensor input(const Tensor& value, std::string_view name = "");
  [[nodiscard]] WatchedParameters watch(const ParameterSet& parameters);
  /// Names a value, for errors, observers and edits.
  void name(const Tensor& value, std::string_view name);

  /// Gradients of y (one number, or any shape with a cotangent) with respect to everything before it. May be called
  /// repeatedly; each call gives the same gradients.
  [[nodiscard]] Gradients backward(const Tensor& y, const BackwardOptions& options = {});
  /// The same for several values at once, in one pass: gradients of sum_i <cotangent_i, y_i>.
  [[nodiscard]] Gradients backward(std::span<const Tensor> ys, std::span<const Tensor> cotangents, bool record = false);
  /// True when y is on this tape and depends on a variable, so that backward(y) has something to do.
  [[nodiscard]] bool differentiable(const Tensor& y) const;

  /// From now on `hook` sees, in every backward pass, the whole gradient of the value of that name, or of the last value made in
  /// the scope of that name, before it passes on. Hooks of one name run in order and outlive clear(). A name that a backward
  /// pass does not find is a GraphError that lists near ones.
  void hook(std::string_view name, GradientHook hook);
  /// Removes the hooks of a name; a name without any is a GraphError.
  void unhook(std::string_view name);

  /// Forgets all values and steps, keeping memory. Older handles become errors. Random ops draw anew afterwards.
  void clear();
  /// While the guard lives, steps carry the scope "outer/name".
  [[nodiscard]] TapeGuard scope(std::string_view name);
  /// While the guard lives, nothing is recorded on this tape.
  [[nodiscard]] TapeGuard no_grad();

  [[nodiscard]] std::int32_t steps() const noexcept;
  [[nodiscard]] std::int32_t values() const noexcept;
  [[nodiscard]] StepView step(std::int32_t i) const;
  /// What the tape holds for a value now (after a replay or an edit); a GraphError when it was not retained.
  [[nodiscard]] Tensor value(std::int32_t id) const;
  [[nodiscard]] Tensor value(const Tensor& handle) const;
  /// Replaces the data of a leaf, or of any retained value, by a tensor of the same shape and dtype. Takes effect with replay().
  void set(const Tensor& handle, const Tensor& value);
  /// Runs the recorded steps again on the leaves as they are now. Nothing is rebuilt; the handles stay valid.
  void replay(const ReplayOptions& options = {});

  /// Number that random ops of this pass derive their streams from: clear() and training replays advance it.
  [[nodiscard]] std::uint64_t noise_counter() const noexcept;
  void set_noise_counter(std::uint64_t counter) noexcept;

  /// Observers are called in order of attachment; they must outlive their attachment.
  void attach(Observer& observer);
  void detach(Observer& observer) noexcept;

 private:
  TapeState* state_;
};

/// What an op's vjp sees: saved values, the gradient of its output, and where to send gradients of its inputs. When the
/// backward is recorded, all of these are on the tape.
class Vjp {
 public:
  [[nodiscard]] int inputs() const noexcept;
  /// True when the gradient of input i is wanted; to() ignores the others.
  [[nodiscard]] bool needs(int i) const noexcept;
  /// A saved input (the op must declare it). Changed since the forward pass: a GraphError naming op and value.
  [[nodiscard]] Tensor input(int i) const;
  [[nodiscard]] Tensor output(int i = 0) const;
  [[nodiscard]] Shape input_shape(int i) const noexcept;
  [[nodiscard]] DType input_dtype(int i) const noexcept;
  [[nodiscard]] const Tensor& grad() const noexcept { return grad_; }
  /// What Run::noise() was in the forward pass.
  [[nodiscard]] std::uint64_t noise() const noexcept;
  template <class Attributes>
  [[nodiscard]] const Attributes& attr() const noexcept {
    return *static_cast<const Attributes*>(attributes());
  }
  /// Adds to the gradient of input i. A gradient of a broadcast shape is summed to the input's shape here, and only here.
  void to(int i, const Tensor& gradient);

 private:
  friend class TapeState;
  Vjp(TapeState& tape, std::int32_t step, Gradients& gradients, bool record) noexcept;
  [[nodiscard]] const void* attributes() const noexcept;
  [[nodiscard]] Tensor saved(std::int32_t id, bool declared, const char* what, int i) const;

  TapeState& tape_;
  std::int32_t step_;
  Gradients& gradients_;
  Tensor grad_;
  bool record_;
  std::vector<Tensor>* sent_ = nullptr;  // for observers
};

}  // namespace gradus
