#pragma once
// One call of an ONNX operator: what an entry of the operator table sees of it.

#include <set>

#include "tests/onnx/model.hpp"

namespace gradus::onnx {

[[noreturn]] inline void skip_attribute(const std::string& what) { throw Skip{Skip::Reason::attribute_unsupported, what}; }
[[noreturn]] inline void skip_law(const std::string& what) { throw Skip{Skip::Reason::law, what}; }

/// Inputs and attributes of a node. Whatever an entry does not read makes the case a Skip: nothing is ignored by accident.
class Call {
 public:
  Call(const Node& node, std::vector<Value> inputs, std::int64_t opset) : node_(node), inputs_(std::move(inputs)), opset_(opset) {}

  [[nodiscard]] std::int64_t opset() const noexcept { return opset_; }
  [[nodiscard]] std::size_t outputs() const noexcept { return node_.outputs.size(); }

  [[nodiscard]] int inputs() const noexcept { return static_cast<int>(inputs_.size()); }
  [[nodiscard]] bool has(int i) const { return i < inputs() && inputs_[static_cast<std::size_t>(i)].tensor.defined(); }
  [[nodiscard]] const Tensor& in(int i);
  [[nodiscard]] Type type(int i) const { return inputs_.at(static_cast<std::size_t>(i)).type; }
  /// All inputs.
  [[nodiscard]] std::vector<Tensor> all();
  /// Input i as a list of integers or one number.
  [[nodiscard]] std::vector<index_t> list(int i);
  [[nodiscard]] double item(int i) { return in(i).item(); }

  [[nodiscard]] bool has(const std::string& attribute) const { return node_.attributes.count(attribute) > 0; }
  [[nodiscard]] index_t integer(const std::string& attribute, index_t otherwise);
  [[nodiscard]] double number(const std::string& attribute, double otherwise);
  [[nodiscard]] std::string text(const std::string& attribute, const std::string& otherwise);
  [[nodiscard]] std::vector<index_t> list(const std::string& attribute, const std::vector<index_t>& otherwise = {});
  [[nodiscard]] std::vector<double> numbers(const std::string& attribute);
  [[nodiscard]] Value tensor(const std::string& attribute);
  /// An attribute that changes nothing here.
  void ignore(const std::string& attribute) { read_attributes_.insert(attribute); }
  void ignore_input(int i) { read_inputs_.insert(i); }

  /// A list that newer operator sets give as input i and older ones as an attribute.
  [[nodiscard]] std::vector<index_t> list(int i, const std::string& attribute) { return has(i) ? list(i) : list(attribute); }

  /// Throws the Skip for what was not read.
  void require_all_read() const;

 private:
  const Attribute* find(const std::string& attribute, std::int64_t type);

  const Node& node_;
  std::vector<Value> inputs_;
  std::int64_t opset_;
  std::set<std::string> read_attributes_;
  std::set<int> read_inputs_;
};

using Outputs = std::vector<Tensor>;
using Operator = Outputs (*)(Call&);
struct Entry {
  const char* op;
  Operator run;
};

/// The operator of that name; null when there is none.
[[nodiscard]] Operator find_operator(const std::string& op);

}  // namespace gradus::onnx
