// Replay: the recorded steps run again on the leaves as they are now, with no graph building.
#include "engine/autograd/tape_state.hpp"
#include "engine/tensor/view.hpp"

namespace gradus {

void TapeState::set(std::int32_t id, const Tensor& tensor) {
  Value& value = values_[static_cast<std::size_t>(id)];
  if (tensor.shape() != value.data.shape())
    throw ShapeError("tape.set", cat(describe(id), " has shape ", value.data.shape(), ", the new one ", tensor.shape()), "keep the shape");
  if (tensor.dtype() != value.data.dtype())
    throw DTypeError("tape.set", cat(describe(id), " is ", name_of(value.data.dtype()), ", the new one ", name_of(tensor.dtype())), "cast it");
  if (!value.keep) throw GraphError("tape.set", cat(describe(id), " is not retained"), "open the tape with Retain::all, or set a leaf");
  value.data = tensor.detached();
  value.version = tensor.version();
}

// Checked before anything runs: every value read from before `from` must still be there.
void TapeState::require_replayable(std::int32_t from) const {
  if (from < 0 || from > static_cast<std::int32_t>(steps_.size())) throw IndexError("replay", cat("step ", from, " of ", steps_.size()), "steps go from 0");
  for (std::size_t s = static_cast<std::size_t>(from); s < steps_.size(); ++s)
    for (const std::int32_t id : inputs_of(steps_[s])) {
      const Value& value = values_[static_cast<std::size_t>(id)];
      if (value.producer < from && !value.data.defined())
        throw GraphError("replay", cat("step ", s, " (", steps_[s].op->name, ") needs ", describe(id), ", which was not retained"),
                         "open the tape with Retain::all, or replay from 0");
    }
}

void TapeState::replay_step(std::int32_t index) {
  const Step& step = steps_[static_cast<std::size_t>(index)];
  PoolVector<const Tensor*> inputs;
  inputs.reserve(step.inputs);
  for (const std::int32_t id : inputs_of(step)) inputs.push_back(&values_[static_cast<std::size_t>(id)].data);
  Run run(*step.op, inputs, step.attributes, noise_of(index));
  step.op->shape(run);
  run.allocate_outputs();
  const bool observed = !observers_.empty();
  const double start = observed ? now_seconds() : 0;
  step.op->forward(run);
  if (observed) {
    const std::array<const Tensor*, max_outputs> outputs{&run.out(0), &run.out(1)};
    notify_forward(index, inputs, std::span(outputs).first(step.outputs), now_seconds() - start);
  }
  for (int o = 0; o < step.outputs; ++o) {
    Value& value = values_[static_cast<std::size_t>(step.first_output + o)];
    value.data = run.out(o);
    value.version = value.data.version();
  }
  for (const std::int32_t id : inputs_of(step)) {
    Value& value = values_[static_cast<std::size_t>(id)];
    if (!value.keep && value.last_use == index) value.data.drop_data();
  }
}

void TapeState::replay(const ReplayOptions& options) {
  require_replayable(options.from_step);
  if (options.advance_noise) ++noise_;
  for (Value& value : values_)
    if (value.producer < 0) value.version = value.data.version();
  for (std::int32_t s = options.from_step; s < static_cast<std::int32_t>(steps_.size()); ++s) replay_step(s);
}

}  // namespace gradus
