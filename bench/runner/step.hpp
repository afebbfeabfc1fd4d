#pragma once
// What pieces of work with gradients share.

#include <memory>
#include <span>

#include "bench/runner/work.hpp"
#include "engine/autograd/gradcheck.hpp"
#include "engine/autograd/parameters.hpp"
#include "engine/autograd/tape.hpp"
#include "optim/optimizer.hpp"

namespace gradus::bench {

/// Keeps the compiler from dropping what is not used.
inline void keep(const Tensor& t) {
  const void* data = t.buffer().data();
  asm volatile("" : : "g"(data) : "memory");
}

/// Classes below `classes`, the same as in torch_work.py.
[[nodiscard]] inline Tensor labels(const Shape& shape, index_t classes) {
  Tensor t = Tensor::empty(shape, DType::i64);
  for (index_t i = 0; i < t.numel(); ++i) t.mutable_data<std::int64_t>()[i] = i * 7919 % classes;
  return t;
}

/// f(variables) and its gradients, for a fixed cotangent of its shape.
template <class F>
[[nodiscard]] Work both_ways(std::vector<Tensor> inputs, F f) {
  struct State {
    Tape tape;
    std::vector<Tensor> inputs, variables;
    Tensor cotangent;
  };
  const auto state = std::make_shared<State>();
  state->inputs = std::move(inputs);
  state->cotangent = random_normal(f(std::span<const Tensor>(state->inputs)).shape(), state->inputs[0].dtype(), 99);
  return [state, f] {
    state->tape.clear();
    state->variables.clear();
    for (const Tensor& x : state->inputs) state->variables.push_back(state->tape.variable(x));
    const Tensor y = f(std::span<const Tensor>(state->variables));
    const Gradients gradients = state->tape.backward(y, {.cotangent = state->cotangent});
    keep(gradients.of(state->variables[0]));
  };
}

/// A training step: the loss of watched parameters, its gradients, an update.
template <class F>
[[nodiscard]] Work training_step(ParameterSet parameters, std::unique_ptr<Optimizer> optimizer, F loss) {
  struct State {
    Tape tape;
    ParameterSet parameters;
    std::unique_ptr<Optimizer> optimizer;
  };
  const auto state = std::make_shared<State>();
  state->parameters = std::move(parameters);
  state->optimizer = std::move(optimizer);
  return [state, loss] {
    state->tape.clear();
    const WatchedParameters watched = state->tape.watch(state->parameters);
    const Gradients gradients = state->tape.backward(loss(watched));
    state->optimizer->step(state->parameters, watched, gradients);
  };
}

}  // namespace gradus::bench
