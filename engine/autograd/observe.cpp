// Telling observers what a step did. Nothing here is reached when nobody observes.
#include "engine/autograd/tape_state.hpp"

namespace gradus {

void TapeState::notify_forward(std::int32_t index, std::span<const Tensor* const> inputs, std::span<const Tensor* const> outputs, double seconds) {
  const Step& step = steps_[static_cast<std::size_t>(index)];
  std::vector<std::string_view> input_names, output_names;
  for (const std::int32_t id : inputs_of(step)) input_names.push_back(text(values_[static_cast<std::size_t>(id)].name));
  for (int o = 0; o < step.outputs; ++o) output_names.push_back(text(values_[static_cast<std::size_t>(step.first_output + o)].name));
  const StepEvent event{StepEvent::Phase::forward, index, *step.op, text(step.scope), inputs, outputs, {}, {}, input_names, output_names, seconds};
  for (Observer* observer : observers_) observer->on_step(event);
}

void TapeState::notify_backward(std::int32_t index, const Tensor& gradient, std::span<const Tensor> sent, double seconds) {
  const Step step = steps_[static_cast<std::size_t>(index)];
  std::vector<const Tensor*> inputs, outputs, input_gradients;
  std::vector<std::string_view> input_names, output_names;
  for (const std::int32_t id : inputs_of(step)) {
    inputs.push_back(&values_[static_cast<std::size_t>(id)].data);
    input_names.push_back(text(values_[static_cast<std::size_t>(id)].name));
  }
  for (int o = 0; o < step.outputs; ++o) {
    outputs.push_back(&values_[static_cast<std::size_t>(step.first_output + o)].data);
    output_names.push_back(text(values_[static_cast<std::size_t>(step.first_output + o)].name));
  }
  for (const Tensor& tensor : sent) input_gradients.push_back(&tensor);
  const Tensor* arrived = &gradient;
  const StepEvent event{StepEvent::Phase::backward, index,           *step.op,    text(step.scope), inputs, outputs,
                        std::span(&arrived, 1),     input_gradients, input_names, output_names,     seconds};
  for (Observer* observer : observers_) observer->on_step(event);
}

}  // namespace gradus
