#include "engine/autograd/parameters.hpp"

#include "engine/core/text.hpp"
#include "engine/tensor/view.hpp"

namespace gradus {
namespace {

void require_match(const std::string& name, const Tensor& mine, const Tensor& saved) {
  if (mine.shape() != saved.shape())
    throw ShapeError("parameters", cat("'", name, "' has shape ", mine.shape(), ", the saved one ", saved.shape()), "load into the same model");
  if (mine.dtype() != saved.dtype())
    throw DTypeError("parameters", cat("'", name, "' is ", name_of(mine.dtype()), ", the saved one ", name_of(saved.dtype())), "load into the same dtype");
}

}  // namespace

const Tensor& find_tensor(const NamedTensors& tensors, std::string_view name, const char* where) {
  std::vector<std::string> names;
  for (const auto& [key, tensor] : tensors) {
    if (key == name) return tensor;
    names.push_back(key);
  }
  throw ValueError(where, cat("no tensor named '", name, "'"), suggest_names(name, names));
}

int ParameterSet::add(std::string name, const Tensor& value, std::string group) {
  for (const Parameter& p : parameters_)
    if (p.name == name) throw ValueError("parameters", cat("the name '", name, "' is taken"), "give each parameter its own name");
  if (!is_floating(value.dtype())) throw DTypeError("parameters", cat("'", name, "' is ", name_of(value.dtype())), "parameters are f32 or f64");
  parameters_.push_back({std::move(name), std::move(group), copy(value), {}});
  return size() - 1;
}

int ParameterSet::index(std::string_view name) const {
  std::vector<std::string> names;
  for (int i = 0; i < size(); ++i)
    if ((*this)[i].name == name) return i;
  for (const Parameter& p : parameters_) names.push_back(p.name);
  throw ValueError("parameters", cat("no parameter named '", name, "'"), suggest_names(name, names));
}

index_t ParameterSet::numel() const {
  index_t count = 0;
  for (const Parameter& p : parameters_) count += p.value.numel();
  return count;
}

Tensor& ParameterSet::state(int i, std::string_view name) {
  Parameter& parameter = (*this)[i];
  for (auto& [key, tensor] : parameter.state)
    if (key == name) return tensor;
  return parameter.state.emplace_back(std::string(name), Tensor::zeros(parameter.value.shape(), parameter.value.dtype())).second;
}

NamedTensors ParameterSet::save() const {
  NamedTensors saved;
  for (const Parameter& p : parameters_) {
    saved.emplace_back("value/" + p.name, copy(p.value));
    for (const auto& [key, tensor] : p.state) saved.emplace_back("state/" + p.name + "/" + key, copy(tensor));
  }
  return saved;
}

void ParameterSet::load(const NamedTensors& saved) {
  for (const Parameter& p : parameters_) require_match(p.name, p.value, find_tensor(saved, "value/" + p.name, "parameters"));
  std::vector<NamedTensors> states(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const std::string prefix = "state/" + parameters_[i].name + "/";
    for (const auto& [key, tensor] : saved) {
      if (!key.starts_with(prefix)) continue;
      require_match(key, parameters_[i].value, tensor);
      states[i].emplace_back(key.substr(prefix.size()), copy(tensor));
    }
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    copy_into(parameters_[i].value, find_tensor(saved, "value/" + parameters_[i].name, "parameters"));
    parameters_[i].state = std::move(states[i]);
  }
}

}  // namespace gradus
