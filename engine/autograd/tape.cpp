#include "engine/autograd/tape.hpp"

#include <algorithm>

#include "engine/autograd/tape_state.hpp"

namespace gradus {

Tape::Tape(TapeOptions options) : state_(TapeState::acquire(options)) {}
Tape::~Tape() { state_->retire(); }

Tensor Tape::variable(const Tensor& value, std::string_view name) {
  if (!value.defined()) throw ValueError("tape.variable", "the tensor is undefined", "build it first");
  if (!is_floating(value.dtype())) throw DTypeError("tape.variable", cat("a ", name_of(value.dtype()), " tensor has no gradient"), "use tape.input");
  return state_->handle_for(state_->add_leaf(value, true, name));
}

Tensor Tape::input(const Tensor& value, std::string_view name) {
  if (!value.defined()) throw ValueError("tape.input", "the tensor is undefined", "build it first");
  return state_->handle_for(state_->add_leaf(value, false, name));
}

WatchedParameters Tape::watch(const ParameterSet& parameters) {
  WatchedParameters watched;
  watched.set_ = &parameters;
  watched.tensors_.reserve(static_cast<std::size_t>(parameters.size()));
  for (int i = 0; i < parameters.size(); ++i) watched.tensors_.push_back(variable(parameters[i].value, parameters[i].name));
  return watched;
}

void Tape::name(const Tensor& value, std::string_view name) {
  state_->values_[static_cast<std::size_t>(state_->id_of(value, "tape.name"))].name = state_->intern(0, name);
}

Gradients Tape::backward(const Tensor& y, const BackwardOptions& options) {
  Tensor seed = options.cotangent;
  if (!seed.defined()) {
    (void)state_->id_of(y, "backward");  // its errors come first
    if (is_floating(y.dtype()) && y.numel() != 1)
      throw ShapeError("backward", cat("y has shape ", y.shape(), ", not one number"), "reduce it, or give a cotangent of its shape");
    seed = Tensor::ones(y.shape(), y.dtype());
  }
  return state_->backward(std::span(&y, 1), std::span(&seed, 1), options.record);
}
Gradients Tape::backward(std::span<const Tensor> ys, std::span<const Tensor> cotangents, bool record) { return state_->backward(ys, cotangents, record); }
bool Tape::differentiable(const Tensor& y) const { return state_->needs_grad(y); }
void Tape::hook(std::string_view name, GradientHook hook) { state_->hook(name, std::move(hook)); }
void Tape::unhook(std::string_view name) { state_->unhook(name); }
void Tape::clear() { state_->clear(); }

TapeGuard Tape::scope(std::string_view name) {
  const std::uint32_t outer = state_->scope_;
  state_->scope_ = state_->intern(outer, name);
  return TapeGuard(state_, outer, false);
}

TapeGuard Tape::no_grad() {
  ++state_->paused_;
  return TapeGuard(state_, state_->scope_, true);
}

TapeGuard::~TapeGuard() {
  if (tape_ == nullptr) return;
  if (pauses_) --tape_->paused_;
  else tape_->scope_ = scope_;
}

std::int32_t Tape::steps() const noexcept { return static_cast<std::int32_t>(state_->steps_.size()); }
std::int32_t Tape::values() const noexcept { return static_cast<std::int32_t>(state_->values_.size()); }

StepView Tape::step(std::int32_t i) const {
  if (i < 0 || i >= steps()) throw IndexError("tape.step", cat("step ", i, " of ", steps()), "steps go from 0");
  const auto& step = state_->steps_[static_cast<std::size_t>(i)];
  return {*step.op, state_->text(step.scope), state_->inputs_of(step), step.first_output, step.outputs};
}

Tensor Tape::value(std::int32_t id) const {
  if (id < 0 || id >= values()) throw IndexError("tape.value", cat("value ", id, " of ", values()), "values go from 0");
  if (!state_->values_[static_cast<std::size_t>(id)].data.defined())
    throw GraphError("tape.value", cat(state_->describe(id), " was not retained"), "open the tape with Retain::all");
  return state_->handle_for(id);
}

Tensor Tape::value(const Tensor& handle) const { return value(state_->id_of(handle, "tape.value")); }
void Tape::set(const Tensor& handle, const Tensor& value) { state_->set(state_->id_of(handle, "tape.set"), value); }
void Tape::replay(const ReplayOptions& options) { state_->replay(options); }
std::uint64_t Tape::noise_counter() const noexcept { return state_->noise_; }
void Tape::set_noise_counter(std::uint64_t counter) noexcept { state_->noise_ = counter; }

void Tape::attach(Observer& observer) { state_->observers_.push_back(&observer); }

void Tape::detach(Observer& observer) noexcept { std::erase(state_->observers_, &observer); }

}  // namespace gradus
