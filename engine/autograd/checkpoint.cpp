#include "engine/autograd/checkpoint.hpp"

#include "engine/autograd/tape_state.hpp"

namespace gradus {
namespace {

// On a tape of its own, whose random numbers start where those of the step do.
struct Inner {
  Inner(const TensorFunction& f, std::span<const Tensor> inputs, std::uint64_t noise) {
    tape.set_noise_counter(noise);
    for (const Tensor& x : inputs) on_tape.push_back(is_floating(x.dtype()) ? tape.variable(x.detached()) : tape.input(x.detached()));
    value = f(on_tape);
  }
  Tape tape;
  std::vector<Tensor> on_tape;
  Tensor value;
};

struct CheckpointAttributes {
  Checkpoint* of;
};

const OpDef checkpoint_op = {
    .name = "checkpoint",
    .family = "control",
    .formula = "y = f(x_1, x_2, \\dots)",
    .shapes = "as f",
    .law = "f runs again in the backward pass; nothing inside it is kept",
    .shape =
        [](Run& r) {
          Checkpoint& c = *r.attr<CheckpointAttributes>().of;
          if (!c.ready.defined()) {  // a replay
            std::vector<Tensor> inputs;
            for (int i = 0; i < r.inputs(); ++i) inputs.push_back(r.in(i));
            c.ready = Inner(c.f, inputs, r.noise()).value.detached();
          }
          r.declare(c.ready.shape(), c.ready.dtype());
        },
    .forward = [](Run& r) { r.out() = std::exchange(r.attr<CheckpointAttributes>().of->ready, Tensor()); },
    .vjp = [](Vjp& b) { TapeState::checkpoint_vjp(b, b.attr<CheckpointAttributes>().of->f); },
    .saves = save::inputs,
    .is_view = true,  // forward brings its own storage
};

}  // namespace

void TapeState::checkpoint_vjp(Vjp& b, const TensorFunction& f) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < b.inputs(); ++i) inputs.push_back(b.input(i));
  if (!b.record_) {
    Inner inner(f, inputs, b.noise());
    const Gradients gradients = inner.tape.backward(inner.value, {.cotangent = b.grad()});
    for (int i = 0; i < b.inputs(); ++i)
      if (b.needs(i)) b.to(i, gradients.of(inner.on_tape[static_cast<std::size_t>(i)]).detached());
    return;
  }
  // Recorded: f again on this tape, and back through its steps only.
  TapeState& tape = b.tape_;
  const auto first = static_cast<std::int32_t>(tape.steps_.size());
  const auto outer_noise = std::exchange(tape.noise_, b.noise());
  const auto outer_base = std::exchange(tape.noise_base_, first);
  const auto restore = [&] {
    tape.noise_ = outer_noise;
    tape.noise_base_ = outer_base;
  };
  Tensor value;
  try {
    value = f(inputs);
  } catch (...) {
    restore();
    throw;
  }
  restore();
  const Gradients gradients = tape.backward(std::span(&value, 1), std::span(&b.grad(), 1), true, first);
  for (int i = 0; i < b.inputs(); ++i) {
    const auto id = static_cast<std::size_t>(inputs[static_cast<std::size_t>(i)].handle().id);
    if (b.needs(i) && id < gradients.by_id_.size() && gradients.by_id_[id].defined()) b.to(i, gradients.by_id_[id]);
  }
}

Tensor checkpoint(const TensorFunction& f, std::span<const Tensor> inputs) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& x : inputs) pointers.push_back(&x);
  TapeState* tape = TapeState::of(checkpoint_op, pointers);
  if (tape == nullptr) return f(inputs);
  Checkpoint& c = tape->checkpoints_.emplace_back(Checkpoint{f, Tensor()});
  c.ready = Inner(f, inputs, tape->noise_of(static_cast<std::int32_t>(tape->steps_.size()))).value.detached();
  const CheckpointAttributes attributes{&c};
  return tape->apply(checkpoint_op, pointers, &attributes, sizeof attributes);
}

}  // namespace gradus
