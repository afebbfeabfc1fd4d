#pragma once
// The one way to watch a tape work. Observers see; they never change what is computed.

#include <span>
#include <string_view>

#include "engine/autograd/op.hpp"

namespace gradus {

/// One executed step, forward or backward. Pointers are valid during the call only.
struct StepEvent {
  enum class Phase : std::uint8_t { forward, backward };
  Phase phase;
  std::int32_t step;  ///< index on the tape
  const OpDef& op;
  std::string_view scope;                           ///< "layer0/attention", or "" at the top
  std::span<const Tensor* const> inputs;            ///< forward: the inputs; backward: those the op saved, the others undefined
  std::span<const Tensor* const> outputs;           ///< likewise
  std::span<const Tensor* const> output_gradients;  ///< backward: what arrived
  std::span<const Tensor* const> input_gradients;   ///< backward: what this step sent, undefined where nothing is needed
  std::span<const std::string_view> input_names;    ///< "" where a value has none
  std::span<const std::string_view> output_names;
  double seconds;  ///< time of the step itself
};

class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_step(const StepEvent& event) = 0;
};

}  // namespace gradus
