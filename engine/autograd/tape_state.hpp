#pragma once
// What a Tape holds. Private to engine/autograd.
//
// States are never freed but handed to the next tape with a new epoch: a tensor may outlive its tape, and its handle must
// then be recognisably stale, not dangling.

#include <deque>
#include <map>
#include <string>

#include "engine/autograd/tape.hpp"

namespace gradus {

template <class T>
using PoolVector = std::vector<T, PoolAllocator<T>>;

/// The number of a pass and the step, mixed: what Run::noise() returns.
[[nodiscard]] std::uint64_t step_noise(std::uint64_t counter, std::int32_t step) noexcept;

/// Attribute bytes of steps. Blocks never move: a vjp holds references while what it records adds steps.
class AttributeArena {
 public:
  /// A copy of `bytes` bytes that stays where it is until clear().
  const void* copy(const void* from, std::size_t bytes);
  /// Forgets everything, keeps the blocks.
  void clear() noexcept { block_ = used_ = 0; }

 private:
  static constexpr std::size_t block_bytes = 1 << 14;
  PoolVector<Buffer> blocks_;
  std::size_t block_ = 0, used_ = 0;  // where the next copy goes
};

/// The function of a checkpoint and, between its running and its recording, what it gave.
struct Checkpoint {
  TensorFunction f;
  Tensor ready;
};

class TapeState {
 public:
  struct Value {
    Value() noexcept {}          // NOLINT(modernize-use-equals-default): see Tensor()
    Tensor data;                 // without storage when not retained; always has shape and dtype
    std::uint32_t version = 0;   // of the storage when it was saved
    std::int32_t producer = -1;  // step, or -1 for a leaf
    std::int32_t last_use = -1;  // last step that reads it
    std::uint32_t name = 0;
    bool needs_grad = false;
    bool keep = false;  // survives a replay: leaves, saved values, everything under Retain::all
  };
  struct Step {
    const OpDef* op;
    const void* attributes;
    std::uint32_t first_input, scope;  // indices into the flat arrays
    std::int32_t first_output;
    std::uint32_t inputs;
    std::uint8_t outputs;
    bool needs_grad;
  };

  [[nodiscard]] static TapeState* acquire(const TapeOptions& options);
  void retire() noexcept;

  // apply.cpp
  [[nodiscard]] Tensor apply(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, std::size_t bytes);
  [[nodiscard]] bool recording() const noexcept { return paused_ == 0; }
  /// The tape of these inputs, or null. Stale handles and mixed tapes are GraphErrors.
  [[nodiscard]] static TapeState* of(const OpDef& op, std::span<const Tensor* const> inputs);

  // tape_state.cpp
  std::int32_t add_leaf(const Tensor& value, bool needs_grad, std::string_view name);
  [[nodiscard]] Tensor handle_for(std::int32_t id) const;
  [[nodiscard]] std::int32_t id_of(const Tensor& tensor, const char* where) const;
  void clear();
  [[nodiscard]] std::uint32_t intern(std::uint32_t parent, std::string_view name);
  [[nodiscard]] std::string_view text(std::uint32_t id) const noexcept { return texts_[id]; }
  [[nodiscard]] std::string describe(std::int32_t id) const;
  [[nodiscard]] std::span<const std::int32_t> inputs_of(const Step& step) const noexcept { return {input_ids_.data() + step.first_input, step.inputs}; }

  // backward.cpp
  [[nodiscard]] Gradients backward(std::span<const Tensor> ys, std::span<const Tensor> cotangents, bool record, std::int32_t first_step = 0);
  void accumulate(Gradients& gradients, std::int32_t id, const Tensor& gradient, bool record);

  [[nodiscard]] bool needs_grad(const Tensor& y) const noexcept;

  // hooks.cpp
  void hook(std::string_view name, GradientHook hook);
  void unhook(std::string_view name);

  // checkpoint.cpp
  static void checkpoint_vjp(Vjp& b, const TensorFunction& f);
  /// What Run::noise() is for a step.
  [[nodiscard]] std::uint64_t noise_of(std::int32_t step) const noexcept { return step_noise(noise_, step - noise_base_); }

  // replay.cpp
  void set(std::int32_t id, const Tensor& value);
  void replay(const ReplayOptions& options);

  // observe.cpp
  void notify_forward(std::int32_t step, std::span<const Tensor* const> inputs, std::span<const Tensor* const> outputs, double seconds);
  void notify_backward(std::int32_t step, const Tensor& gradient, std::span<const Tensor> sent, double seconds);

  TapeOptions options_;
  std::uint32_t epoch_ = 1;
  std::uint64_t noise_ = 0;
  std::int32_t noise_base_ = 0;  // step that counts as the first
  int paused_ = 0;
  std::uint32_t scope_ = 0;
  PoolVector<Value> values_;
  PoolVector<Step> steps_;
  PoolVector<std::int32_t> input_ids_;
  AttributeArena attributes_;
  std::vector<Observer*> observers_;
  std::deque<Checkpoint> checkpoints_;  // a deque: steps point at its elements

 private:
  void record(Run& run, std::size_t attribute_bytes);
  std::int32_t record_input(const Tensor& tensor, bool saved, std::int32_t step);
  // A hook and the value it was resolved to for one backward pass.
  struct ActiveHook {
    std::int32_t id;
    const GradientHook* hook;
  };
  void check_backward_rules(std::span<const Tensor> ys, std::int32_t last, std::int32_t first) const;
  void backward_step(std::int32_t step, Gradients& gradients, bool record, std::span<const ActiveHook> hooks);
  [[nodiscard]] PoolVector<ActiveHook> resolve_hooks() const;
  [[nodiscard]] std::int32_t value_called(std::string_view name) const noexcept;
  static void run_hooks(std::span<const ActiveHook> hooks, std::int32_t id, Tensor& gradient);
  void replay_step(std::int32_t step);
  void require_replayable(std::int32_t from) const;

  // (parent, part) -> index of the joined text: scopes "a/b" and value names share one table that lives as long as the tape.
  struct PartLess {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const noexcept {
      if (a.first != b.first) return a.first < b.first;
      return std::string_view(a.second) < std::string_view(b.second);
    }
  };
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t, PartLess> interned_;
  std::vector<std::string> texts_{""};
  std::vector<std::pair<std::string, GradientHook>> hooks_;
};

/// Seconds on a steady clock; read only when somebody observes.
[[nodiscard]] double now_seconds() noexcept;

}  // namespace gradus
