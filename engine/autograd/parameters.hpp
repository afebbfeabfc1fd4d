#pragma once
// ParameterSet: the one thing models own, tapes watch, optimisers update and checkpoints write.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/tensor/tensor.hpp"

namespace gradus {

/// Tensors by name, in a fixed order: what a state saves to and restores from.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

/// The entry called `name`; none is a ValueError naming `where` and near names.
[[nodiscard]] const Tensor& find_tensor(const NamedTensors& tensors, std::string_view name, const char* where);

struct Parameter {
  std::string name;
  std::string group;  ///< optimisers may treat groups differently
  Tensor value;
  NamedTensors state;  ///< what an optimiser keeps for it (moments), by name
};

class ParameterSet {
 public:
  /// Adds a parameter and returns its index. A name used before is a ValueError; so is an integer or bool tensor.
  int add(std::string name, const Tensor& value, std::string group = "default");
  [[nodiscard]] int size() const noexcept { return static_cast<int>(parameters_.size()); }
  [[nodiscard]] Parameter& operator[](int i) { return parameters_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const Parameter& operator[](int i) const { return parameters_[static_cast<std::size_t>(i)]; }
  /// Index of a name; an unknown one is a ValueError that lists near names.
  [[nodiscard]] int index(std::string_view name) const;
  /// Elements in all parameters.
  [[nodiscard]] index_t numel() const;
  /// An optimiser's tensor of that name for parameter i, made as zeros of the parameter's shape when first asked for.
  [[nodiscard]] Tensor& state(int i, std::string_view name);

  /// Copies of values ("value/NAME") and optimiser states ("state/NAME/KEY").
  [[nodiscard]] NamedTensors save() const;
  /// Restores what save() gave, into the existing storage. Names, shapes and dtypes must match; on an error nothing changes.
  void load(const NamedTensors& saved);

 private:
  std::vector<Parameter> parameters_;
};

}  // namespace gradus
