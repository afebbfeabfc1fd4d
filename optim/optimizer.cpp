#include "optim/optimizer.hpp"

#include <cmath>

#include "engine/core/parallel.hpp"

namespace gradus {
namespace {

void require_rate(double rate) {
  if (!(rate > 0) || std::isinf(rate)) throw ValueError("optimizer", cat("the learning rate is ", rate), "it must be finite and > 0");
}

}  // namespace

GradientList gradients_of(const WatchedParameters& watched, const Gradients& gradients) {
  GradientList list;
  list.reserve(static_cast<std::size_t>(watched.size()));
  for (int i = 0; i < watched.size(); ++i) list.push_back(gradients.of(watched[i]));
  return list;
}

Optimizer::Optimizer(double rate) : rate_(rate) { require_rate(rate); }

void Optimizer::set_learning_rate(double rate) {
  require_rate(rate);
  rate_ = rate;
}

void Optimizer::step(ParameterSet& parameters, const WatchedParameters& watched, const Gradients& gradients) {
  if (watched.size() != parameters.size())
    throw ValueError("optimizer", cat(watched.size(), " watched parameters for a set of ", parameters.size()), "watch the same set that is updated");
  for (int i = 0; i < parameters.size(); ++i)
    if (!watched[i].buffer().same_as(parameters[i].value.buffer()))
      throw ValueError("optimizer", cat("'", parameters[i].name, "' is not what was watched"), "watch the same set that is updated");
  step(parameters, gradients_of(watched, gradients));
}

void Optimizer::step(ParameterSet& parameters, const GradientList& gradients) {
  if (static_cast<int>(gradients.size()) != parameters.size())
    throw ValueError("optimizer", cat(gradients.size(), " gradients for a set of ", parameters.size()), "give one for each parameter");
  for (int i = 0; i < parameters.size(); ++i) {
    const Tensor &gradient = gradients[static_cast<std::size_t>(i)], &value = parameters[i].value;
    if (!(gradient.shape() == value.shape()))
      throw ShapeError("optimizer", cat("'", parameters[i].name, "' is ", value.shape(), ", its gradient ", gradient.shape()),
                       "give the gradients in the set's order");
    if (gradient.dtype() != value.dtype())
      throw DTypeError("optimizer", cat("'", parameters[i].name, "' is ", name_of(value.dtype()), ", its gradient ", name_of(gradient.dtype())), "cast first");
  }
  const FlushDenormals guard;
  ++steps_;
  for (int i = 0; i < parameters.size(); ++i) update(parameters, i, gradients[static_cast<std::size_t>(i)]);
}

NamedTensors Optimizer::save() const {
  NamedTensors saved{{cat("optimizer/", name(), "/steps"), Tensor::scalar(static_cast<double>(steps_), DType::i64)},
                     {"optimizer/learning_rate", Tensor::scalar(rate_, DType::f64)}};
  for (const auto& [key, value] : const_cast<Optimizer*>(this)->settings()) saved.emplace_back("optimizer/" + key, Tensor::scalar(*value, DType::f64));
  return saved;
}

void Optimizer::load(const NamedTensors& saved) {
  const auto read = [&](const std::string& key) { return find_tensor(saved, "optimizer/" + key, "optimizer").item(); };
  const double steps = read(cat(name(), "/steps")), rate = read("learning_rate");
  require_rate(rate);
  std::vector<double> values;
  const auto mine = settings();
  for (const auto& entry : mine) values.push_back(read(entry.first));
  steps_ = static_cast<std::int64_t>(steps);
  rate_ = rate;
  for (std::size_t i = 0; i < mine.size(); ++i) *mine[i].second = values[i];
}

}  // namespace gradus
