#include "tests/onnx/call.hpp"

namespace gradus::onnx {

const Tensor& Call::in(int i) {
  read_inputs_.insert(i);
  if (!has(i)) throw Malformed(cat(node_.op, " lacks input ", i));
  return inputs_[static_cast<std::size_t>(i)].tensor;
}

std::vector<Tensor> Call::all() {
  std::vector<Tensor> tensors;
  for (int i = 0; i < inputs(); ++i) tensors.push_back(in(i));
  return tensors;
}

std::vector<index_t> Call::list(int i) {
  const Tensor& t = in(i);
  if (t.dtype() != DType::i64 || t.rank() > 1) throw Malformed(cat(node_.op, ": input ", i, " is no list of integers"));
  return t.to_vector<index_t>();
}

const Attribute* Call::find(const std::string& attribute, std::int64_t type) {
  read_attributes_.insert(attribute);
  const auto found = node_.attributes.find(attribute);
  if (found == node_.attributes.end()) return nullptr;
  if (found->second.type != type) throw Malformed(cat(node_.op, ": attribute ", attribute, " is of type ", found->second.type));
  return &found->second;
}

namespace {
enum AttributeType : std::int64_t { is_number = 1, is_integer = 2, is_text = 3, is_tensor = 4, are_numbers = 6, are_integers = 7 };
}

index_t Call::integer(const std::string& attribute, index_t otherwise) {
  const Attribute* found = find(attribute, is_integer);
  return found ? found->integer : otherwise;
}
double Call::number(const std::string& attribute, double otherwise) {
  const Attribute* found = find(attribute, is_number);
  return found ? static_cast<double>(found->number) : otherwise;
}
std::string Call::text(const std::string& attribute, const std::string& otherwise) {
  const Attribute* found = find(attribute, is_text);
  return found ? found->text : otherwise;
}
std::vector<index_t> Call::list(const std::string& attribute, const std::vector<index_t>& otherwise) {
  const Attribute* found = find(attribute, are_integers);
  return found ? found->integers : otherwise;
}
std::vector<double> Call::numbers(const std::string& attribute) {
  const Attribute* found = find(attribute, are_numbers);
  return found ? std::vector<double>(found->numbers.begin(), found->numbers.end()) : std::vector<double>();
}
Value Call::tensor(const std::string& attribute) {
  const Attribute* found = find(attribute, is_tensor);
  if (!found) throw Malformed(cat(node_.op, " lacks attribute ", attribute));
  return parse_tensor(Message(found->tensor)).value;
}

void Call::require_all_read() const {
  for (const auto& [name, attribute] : node_.attributes)
    if (read_attributes_.count(name) == 0) skip_attribute(cat(node_.op, ".", name));
  for (int i = 0; i < inputs(); ++i)
    if (has(i) && read_inputs_.count(i) == 0) skip_attribute(cat(node_.op, ", input ", i));
}

}  // namespace gradus::onnx
