// Gradient hooks: found by name at the start of a backward pass, run when the whole gradient of their value has arrived.
#include "engine/autograd/tape_state.hpp"
#include "engine/core/text.hpp"

namespace gradus {

void TapeState::hook(std::string_view name, GradientHook hook) {
  if (name.empty()) throw ValueError("tape.hook", "an empty name", "give the name of a value or of a scope");
  if (!hook) throw ValueError("tape.hook", cat("the hook of \"", name, "\" is empty"), "give a function");
  hooks_.emplace_back(name, std::move(hook));
}

void TapeState::unhook(std::string_view name) {
  if (std::erase_if(hooks_, [&](const auto& entry) { return entry.first == name; }) > 0) return;
  std::vector<std::string> known;
  for (const auto& [hooked, hook] : hooks_) known.push_back(hooked);
  throw GraphError("tape.unhook", cat("no hook is called \"", name, '"'), suggest_names(name, known));
}

// The latest value of that name, else the last output of the steps in the scope of that name or below; -1 when there is neither.
std::int32_t TapeState::value_called(std::string_view name) const noexcept {
  for (std::size_t id = values_.size(); id-- > 0;)
    if (values_[id].name && text(values_[id].name) == name) return static_cast<std::int32_t>(id);
  for (std::size_t s = steps_.size(); s-- > 0;) {
    const std::string_view scope = text(steps_[s].scope);
    if (scope.starts_with(name) && (scope.size() == name.size() || scope[name.size()] == '/')) return steps_[s].first_output;
  }
  return -1;
}

PoolVector<TapeState::ActiveHook> TapeState::resolve_hooks() const {
  PoolVector<ActiveHook> active;
  for (const auto& [name, hook] : hooks_) {
    const std::int32_t id = value_called(name);
    if (id < 0) {
      const std::vector<std::string> known(texts_.begin() + 1, texts_.end());
      throw GraphError("backward", cat("a gradient hook waits for \"", name, "\", but no value or scope has that name"), suggest_names(name, known));
    }
    active.push_back({id, &hook});
  }
  return active;
}

void TapeState::run_hooks(std::span<const ActiveHook> hooks, std::int32_t id, Tensor& gradient) {
  for (const ActiveHook& active : hooks) {
    if (active.id != id) continue;
    const Tensor replaced = (*active.hook)(gradient);
    if (!replaced.defined()) continue;
    if (replaced.shape() != gradient.shape() || replaced.dtype() != gradient.dtype())
      throw GraphError(
          "backward",
          cat("a gradient hook turned ", name_of(gradient.dtype()), ' ', gradient.shape(), " into ", name_of(replaced.dtype()), ' ', replaced.shape()),
          "a hook keeps shape and dtype");
    gradient = replaced;
  }
}

}  // namespace gradus
