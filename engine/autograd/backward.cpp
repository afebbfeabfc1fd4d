// Backward: a loop from the last step to the first. No recursion, so a chain of a million steps needs no stack.
#include <algorithm>

#include "engine/autograd/core_ops.hpp"
#include "engine/autograd/tape_state.hpp"
#include "engine/core/parallel.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/tensor/view.hpp"

namespace gradus {
namespace {

// slot += gradient where nobody else holds the storage of either shape; false when it must be added out of place.
bool add_in_place(Tensor& slot, const Tensor& gradient) {
  if (!slot.buffer().unique() || !slot.is_contiguous() || !gradient.is_contiguous()) return false;
  visit_floating(slot.dtype(), "backward", [&](auto tag) {
    using T = decltype(tag);
    T* into = slot.mutable_data<T>();
    const T* from = gradient.data<T>();
    const auto add_runs = kernels::active<T>().elementwise.binary[static_cast<std::size_t>(kernels::Binary::add)];
    parallel_for(slot.numel(), index_t{1} << 15, [&](index_t begin, index_t end) { add_runs(into + begin, 1, from + begin, 1, into + begin, end - begin); });
  });
  return true;
}

}  // namespace

Vjp::Vjp(TapeState& tape, std::int32_t step, Gradients& gradients, bool record) noexcept : tape_(tape), step_(step), gradients_(gradients), record_(record) {}

int Vjp::inputs() const noexcept { return static_cast<int>(tape_.steps_[static_cast<std::size_t>(step_)].inputs); }

bool Vjp::needs(int i) const noexcept {
  const auto& step = tape_.steps_[static_cast<std::size_t>(step_)];
  return tape_.values_[static_cast<std::size_t>(tape_.inputs_of(step)[static_cast<std::size_t>(i)])].needs_grad;
}

Shape Vjp::input_shape(int i) const noexcept {
  const auto& step = tape_.steps_[static_cast<std::size_t>(step_)];
  return tape_.values_[static_cast<std::size_t>(tape_.inputs_of(step)[static_cast<std::size_t>(i)])].data.shape();
}

DType Vjp::input_dtype(int i) const noexcept {
  const auto& step = tape_.steps_[static_cast<std::size_t>(step_)];
  return tape_.values_[static_cast<std::size_t>(tape_.inputs_of(step)[static_cast<std::size_t>(i)])].data.dtype();
}

std::uint64_t Vjp::noise() const noexcept { return tape_.noise_of(step_); }

const void* Vjp::attributes() const noexcept { return tape_.steps_[static_cast<std::size_t>(step_)].attributes; }

Tensor Vjp::input(int i) const {
  const auto& step = tape_.steps_[static_cast<std::size_t>(step_)];
  return saved(tape_.inputs_of(step)[static_cast<std::size_t>(i)], i >= 31 || (step.op->saves & save::input(i)), "input", i);
}

Tensor Vjp::output(int i) const {
  const auto& step = tape_.steps_[static_cast<std::size_t>(step_)];
  return saved(step.first_output + i, step.op->saves & save::output, "output", i);
}

Tensor Vjp::saved(std::int32_t id, bool declared, const char* what, int i) const {
  const auto& value = tape_.values_[static_cast<std::size_t>(id)];
  const char* op = tape_.steps_[static_cast<std::size_t>(step_)].op->name;
  if (!declared || !value.data.defined())
    throw GraphError(op, cat("its vjp reads ", what, " ", i, ", which it does not declare as saved"), "add it to OpDef::saves");
  if (value.data.version() != value.version)
    throw GraphError(op, cat(what, " ", i, ", ", tape_.describe(id), ", was changed in place after the forward pass"),
                     "run backward first, or give the op a copy");
  return record_ ? tape_.handle_for(id) : value.data;
}

void Vjp::to(int i, const Tensor& gradient) {
  if (!needs(i)) return;
  const std::int32_t id = tape_.inputs_of(tape_.steps_[static_cast<std::size_t>(step_)])[static_cast<std::size_t>(i)];
  if (sent_) (*sent_)[static_cast<std::size_t>(i)] = gradient;
  tape_.accumulate(gradients_, id, gradient, record_);
}

void TapeState::accumulate(Gradients& gradients, std::int32_t id, const Tensor& gradient, bool record) {
  const Tensor& like = values_[static_cast<std::size_t>(id)].data;
  if (gradient.dtype() != like.dtype())
    throw GraphError("backward", cat("a gradient of dtype ", name_of(gradient.dtype()), " for ", describe(id), ", which is ", name_of(like.dtype())),
                     "the vjp must keep dtypes");
  const Shape shape = like.shape();  // recording a sum may move values_
  if (gradient.shape() != shape) {
    accumulate(gradients, id, sum_to_shape(gradient, shape), record);
    return;
  }
  Tensor& slot = gradients.by_id_[static_cast<std::size_t>(id)];
  if (!slot.defined()) slot = gradient;
  else if (record || !add_in_place(slot, gradient)) slot = add(slot, gradient);
}

// An op without a rule is found before any work is done, and only if the gradient would have to pass through it.
void TapeState::check_backward_rules(std::span<const Tensor> ys, std::int32_t last, std::int32_t first) const {
  bool missing = false;
  for (std::int32_t s = first; s <= last && !missing; ++s) {
    const Step& step = steps_[static_cast<std::size_t>(s)];
    missing = step.needs_grad && step.op->vjp == nullptr;
  }
  if (!missing) return;
  std::vector<bool> reached(values_.size(), false);
  for (const Tensor& y : ys) reached[static_cast<std::size_t>(y.handle().id)] = true;
  for (std::int32_t s = last; s >= first; --s) {
    const Step& step = steps_[static_cast<std::size_t>(s)];
    bool used = false;
    for (int o = 0; o < step.outputs; ++o) used = used || reached[static_cast<std::size_t>(step.first_output + o)];
    if (!used || !step.needs_grad) continue;
    if (step.op->vjp == nullptr)
      throw GraphError(step.op->name, cat("has no gradient rule", step.scope ? cat(", used in ", text(step.scope)) : ""),
                       "give its OpDef a vjp, or detached() its input");
    for (const std::int32_t id : inputs_of(step)) reached[static_cast<std::size_t>(id)] = true;
  }
}

void TapeState::backward_step(std::int32_t s, Gradients& gradients, bool record, std::span<const ActiveHook> hooks) {
  const Step step = steps_[static_cast<std::size_t>(s)];  // a copy: recording may move steps_
  if (!step.needs_grad) return;
  Tensor& slot = gradients.by_id_[static_cast<std::size_t>(step.first_output)];
  if (!slot.defined()) return;
  if (!hooks.empty()) run_hooks(hooks, step.first_output, slot);
  Vjp vjp(*this, s, gradients, record);
  // Under Retain::saved a gradient that has passed on is not needed again: freeing it now halves the memory of a pass.
  if (!record && options_.retain == Retain::saved) vjp.grad_ = std::move(slot);
  else vjp.grad_ = slot;
  std::vector<Tensor> sent;
  const bool observed = !observers_.empty();
  if (observed) {
    sent.resize(step.inputs);
    vjp.sent_ = &sent;
  }
  const double start = observed ? now_seconds() : 0;
  if (step.op->fused_vjp && !record) step.op->fused_vjp(vjp);
  else step.op->vjp(vjp);
  ++gradients.steps_visited_;
  if (observed) notify_backward(s, vjp.grad_, sent, now_seconds() - start);
}

bool TapeState::needs_grad(const Tensor& y) const noexcept {
  const TapeHandle& handle = y.handle();
  return handle.tape == this && handle.epoch == epoch_ && values_[static_cast<std::size_t>(handle.id)].needs_grad;
}

namespace {

void require_seed(const Tensor& y, const Tensor& seed) {
  if (seed.shape() != y.shape())
    throw ShapeError("backward", cat("the cotangent has shape ", seed.shape(), ", y has ", y.shape()), "give one number for each of y");
  if (seed.dtype() != y.dtype()) throw DTypeError("backward", cat("the cotangent is ", name_of(seed.dtype()), ", y is ", name_of(y.dtype())), "cast it");
}

}  // namespace

Gradients TapeState::backward(std::span<const Tensor> ys, std::span<const Tensor> cotangents, bool record, std::int32_t first_step) {
  if (ys.empty() || ys.size() != cotangents.size())
    throw ValueError("backward", cat(ys.size(), " values with ", cotangents.size(), " cotangents"),
                     "give one cotangent for each value, and at least one value");
  std::int32_t last = -1, largest = 0;
  for (std::size_t i = 0; i < ys.size(); ++i) {
    const std::int32_t id = id_of(ys[i], "backward");
    const Value& value = values_[static_cast<std::size_t>(id)];
    if (!is_floating(ys[i].dtype())) throw DTypeError("backward", cat("y is ", name_of(ys[i].dtype())), "differentiate a floating-point value");
    if (!value.needs_grad) throw GraphError("backward", cat(describe(id), " does not depend on any variable"), "use tape.variable or tape.watch");
    require_seed(ys[i], cotangents[i]);
    last = std::max(last, value.producer);
    largest = std::max(largest, id);
  }
  if (last >= first_step) check_backward_rules(ys, last, first_step);
  const PoolVector<ActiveHook> hooks = resolve_hooks();
  Gradients gradients;
  gradients.tape_ = this;
  gradients.epoch_ = epoch_;
  gradients.by_id_.resize(static_cast<std::size_t>(largest) + 1);
  for (std::size_t i = 0; i < ys.size(); ++i) {
    Tensor& slot = gradients.by_id_[static_cast<std::size_t>(ys[i].handle().id)];
    slot = slot.defined() ? add(slot, cotangents[i]) : cotangents[i];
  }
  for (std::int32_t s = last; s >= first_step; --s) backward_step(s, gradients, record, hooks);
  for (const ActiveHook& active : hooks) {
    const auto id = static_cast<std::size_t>(active.id);
    if (values_[id].producer < 0 && id < gradients.by_id_.size() && gradients.by_id_[id].defined())
      run_hooks(std::span(&active, 1), active.id, gradients.by_id_[id]);
  }
  return gradients;
}

Tensor Gradients::of(const Tensor& tensor) const {
  if (tape_ == nullptr) throw GraphError("gradients", "empty", "call backward first");
  if (tape_->epoch_ != epoch_) throw GraphError("gradients", "the tape was cleared since", "read gradients before clear()");
  const auto id = static_cast<std::size_t>(tape_->id_of(tensor, "gradients"));
  if (id < by_id_.size() && by_id_[id].defined()) return by_id_[id];
  const auto& value = tape_->values_[id];
  if (value.producer >= 0 && value.needs_grad && tape_->options_.retain == Retain::saved)
    throw GraphError("gradients", cat("the gradient of ", tape_->describe(static_cast<std::int32_t>(id)), " was not kept"), "open the tape with Retain::all");
  return zeros(tensor.shape(), tensor.dtype());
}

}  // namespace gradus
