// Running an op: checked, computed, and recorded when an input is on a tape.
#include "engine/autograd/tape_state.hpp"

namespace gradus {

const char* name_of(GradientKind kind) noexcept {
  switch (kind) {
    case GradientKind::exact: return "exact";
    case GradientKind::zero: return "zero almost everywhere";
    case GradientKind::surrogate: return "surrogate";
  }
  return "?";
}

InputSpec normal_input(const Shape& shape) { return {shape, InputSpec::Fill::normal, 0, 1, {}}; }
InputSpec uniform_input(const Shape& shape, double low, double high) { return {shape, InputSpec::Fill::uniform, low, high, {}}; }
InputSpec integer_input(const Shape& shape, index_t below) { return {shape, InputSpec::Fill::integers, 0, static_cast<double>(below), {}}; }
InputSpec boolean_input(const Shape& shape) { return {shape, InputSpec::Fill::booleans, 0, 1, {}}; }
InputSpec integer_values(const Shape& shape, std::vector<double> values) { return {shape, InputSpec::Fill::integer_values, 0, 1, std::move(values)}; }
InputSpec value_input(const Shape& shape, std::vector<double> values) { return {shape, InputSpec::Fill::values, 0, 1, std::move(values)}; }

const char* Run::name() const noexcept { return op_.name; }

void Run::declare(const Shape& shape, DType dtype) {
  (void)byte_size(shape, dtype);  // an overflow is an error of the shape rule, before any work
  declared_[static_cast<std::size_t>(outputs_count_++)] = {shape, dtype};
}

void Run::allocate_outputs() {
  if (op_.is_view) return;
  for (std::size_t i = 0; i < static_cast<std::size_t>(outputs_count_); ++i) outputs_[i] = Tensor::empty(declared_[i].first, declared_[i].second);
}

Tensor apply(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, std::size_t bytes) {
  if (TapeState* tape = TapeState::of(op, inputs)) return tape->apply(op, inputs, attributes, bytes);
  Run run(op, inputs, attributes, 0);
  op.shape(run);
  if (op.composed()) return op.composite(run);
  run.allocate_outputs();
  op.forward(run);
  return std::move(run.out());
}

TapeState* TapeState::of(const OpDef& op, std::span<const Tensor* const> inputs) {
  TapeState* tape = nullptr;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = *inputs[i];
    if (!input.defined()) throw ValueError(op.name, cat("input ", i, " is undefined"), "build it first");
    const TapeHandle& handle = input.handle();
    if (handle.tape == nullptr) continue;
    if (handle.epoch != handle.tape->epoch_)
      throw GraphError(op.name, cat("input ", i, " of shape ", input.shape(), " comes from a tape that was cleared or is gone"),
                       "compute it again, or detached() it");
    if (tape != nullptr && tape != handle.tape) {
      std::size_t other = 0;
      while (inputs[other]->handle().tape != tape) ++other;
      throw GraphError(op.name,
                       cat("input ", other, ", ", tape->describe(inputs[other]->handle().id), ", and input ", i, ", ", handle.tape->describe(handle.id),
                           ", are on two tapes"),
                       "use one tape, or detached() one of them");
    }
    tape = handle.tape;
  }
  return tape != nullptr && tape->recording() ? tape : nullptr;
}

namespace {

class Pause {
 public:
  explicit Pause(TapeState& tape) noexcept : tape_(tape) { ++tape_.paused_; }
  ~Pause() { --tape_.paused_; }
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  TapeState& tape_;
};

// The parts of an expanded op carry its name as their scope.
class ScopeOf {
 public:
  ScopeOf(TapeState& tape, const char* name) : tape_(tape), outer_(tape.scope_) { tape_.scope_ = tape_.intern(outer_, name); }
  ~ScopeOf() { tape_.scope_ = outer_; }
  ScopeOf(const ScopeOf&) = delete;
  ScopeOf& operator=(const ScopeOf&) = delete;

 private:
  TapeState& tape_;
  std::uint32_t outer_;
};

}  // namespace

Tensor TapeState::apply(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, std::size_t bytes) {
  const auto index = static_cast<std::int32_t>(steps_.size());
  Run run(op, inputs, attributes, noise_of(index));
  op.shape(run);
  if (op.composed()) return op.composite(run);
  if (options_.expand && op.composite) {
    const ScopeOf parts(*this, op.name);
    return op.composite(run);
  }
  run.allocate_outputs();
  const bool observed = !observers_.empty();
  const double start = observed ? now_seconds() : 0;
  {
    // What a forward computes with other ops is part of this step, not steps of its own.
    const Pause pause(*this);
    op.forward(run);
  }
  const double seconds = observed ? now_seconds() - start : 0;
  record(run, bytes);
  if (observed) {
    const std::array<const Tensor*, max_outputs> outputs{&run.out(0), &run.out(1)};
    notify_forward(index, inputs, std::span(outputs).first(static_cast<std::size_t>(run.outputs())), seconds);
  }
  run.out().set_handle({this, steps_.back().first_output, epoch_});
  return std::move(run.out());
}

std::int32_t TapeState::record_input(const Tensor& tensor, bool saved, std::int32_t step) {
  const std::int32_t id = tensor.on_tape() ? tensor.handle().id : add_leaf(tensor, false, "");
  Value& value = values_[static_cast<std::size_t>(id)];
  value.last_use = step;
  if (saved && !value.data.defined()) {
    value.data = tensor;
    value.data.set_handle({});
    value.version = tensor.version();
  }
  value.keep = value.keep || saved;
  return id;
}

void TapeState::record(Run& run, std::size_t attribute_bytes) {
  const OpDef& op = run.op();
  const auto index = static_cast<std::int32_t>(steps_.size());
  const bool all = options_.retain == Retain::all;
  const auto first_input = static_cast<std::uint32_t>(input_ids_.size());
  bool needs_grad = false;
  for (int i = 0; i < run.inputs(); ++i) {
    const std::int32_t id = record_input(run.in(i), all || (i < 31 ? op.saves & save::input(i) : (op.saves & save::inputs) == save::inputs), index);
    input_ids_.push_back(id);
    needs_grad = needs_grad || values_[static_cast<std::size_t>(id)].needs_grad;
  }
  needs_grad = needs_grad && op.gradient != GradientKind::zero;
  const void* attributes = attributes_.copy(run.attributes(), attribute_bytes);
  const auto first_output = static_cast<std::int32_t>(values_.size());
  for (int i = 0; i < run.outputs(); ++i) {
    Value& value = values_.emplace_back();
    value.producer = index;
    value.needs_grad = needs_grad && is_floating(run.out(i).dtype());
    value.keep = all || (op.saves & save::output);
    if (value.keep) {
      value.data = run.out(i);
      value.version = value.data.version();
    } else {
      value.data.take_metadata(run.out(i));
    }
  }
  steps_.push_back(
      {&op, attributes, first_input, scope_, first_output, static_cast<std::uint32_t>(run.inputs()), static_cast<std::uint8_t>(run.outputs()), needs_grad});
}

}  // namespace gradus
