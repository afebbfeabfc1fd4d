#include "tests/onnx/runner.hpp"

#include <cmath>
#include <sstream>

#include "engine/io/file.hpp"

namespace gradus::onnx {
namespace {

Type type_like(const Tensor& tensor, const std::vector<Value>& inputs) {
  for (const Value& input : inputs)
    if (input.tensor.defined() && input.tensor.dtype() == tensor.dtype()) return input.type;
  switch (tensor.dtype()) {
    case DType::f32: return Type::f32;
    case DType::f64: return Type::f64;
    case DType::i64: return Type::i64;
    default: return Type::boolean;
  }
}

void run_node(const Node& node, std::int64_t opset, std::map<std::string, Value>& values) {
  const Operator run = node.domain.empty() || node.domain == "ai.onnx" ? find_operator(node.op) : nullptr;
  if (run == nullptr) throw Skip{Skip::Reason::operator_missing, node.op};
  std::vector<Value> inputs;
  for (const std::string& name : node.inputs) {
    const auto found = values.find(name);
    if (found == values.end() && !name.empty()) throw Malformed(cat(node.op, " reads ", name, ", which nothing gives"));
    inputs.push_back(name.empty() ? Value{} : found->second);
  }
  Call call(node, inputs, opset);
  Outputs outputs;
  try {
    outputs = run(call);
  } catch (const DTypeError&) {
    throw Skip{Skip::Reason::dtype_missing, cat(node.op, " of ", name_of(inputs.empty() ? Type::none : inputs[0].type))};
  }
  call.require_all_read();
  if (outputs.size() < node.outputs.size()) skip_attribute(cat(node.op, ", output ", outputs.size()));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) values[node.outputs[i]] = {outputs[i], type_like(outputs[i], inputs)};
}

std::string read(const std::filesystem::path& path) { return io::read_file(path.string()); }

/// The value of a port. Some files hold another type than the model says: bits of bfloat16 as uint16.
Value read_value(const std::filesystem::path& path, const Port& port) {
  Value value = parse_tensor(Message(read(path))).value;
  if (value.type != port.type) throw Skip{Skip::Reason::dtype_missing, cat(name_of(port.type), " given as ", name_of(value.type))};
  return value;
}

/// ONNX itself allows 1e-3 and 1e-7 for every type.
constexpr Tolerance loose{1e-3, 1e-7};

Tolerance tolerance_of(Type type) {
  switch (type) {
    case Type::f64: return {1e-7, 1e-9};  // expected values are often computed in single precision
    case Type::f32: return {1e-5, 1e-6};
    case Type::f16: return loose;
    case Type::bf16: return {1e-2, 1e-7};
    default: return {};
  }
}

/// The models of window functions hold only five digits of pi, those of the expected values all.
bool has_rough_constants(const std::string& name) { return name.find("window_") != std::string::npos && name.find("_expanded") != std::string::npos; }

}  // namespace

std::vector<Value> run_model(const Model& model, std::vector<Value> inputs) {
  std::map<std::string, Value> values;
  if (inputs.size() > model.inputs.size()) throw Malformed(cat(inputs.size(), " inputs for a model of ", model.inputs.size()));
  for (const NamedValue& initializer : model.initializers) values[initializer.name] = initializer.value;
  for (std::size_t i = 0; i < inputs.size(); ++i) values[model.inputs[i].name] = std::move(inputs[i]);
  for (const Node& node : model.nodes) run_node(node, model.opset, values);
  std::vector<Value> outputs;
  for (const Port& port : model.outputs) {
    const auto found = values.find(port.name);
    if (found == values.end()) throw Malformed("nothing gives output " + port.name);
    outputs.push_back(found->second);
  }
  return outputs;
}

std::string difference(const Value& got, const Value& want, const Tolerance& tolerance) {
  if (!(got.tensor.shape() == want.tensor.shape())) return cat("shape ", got.tensor.shape(), " instead of ", want.tensor.shape());
  if (got.tensor.dtype() != want.tensor.dtype()) return cat(gradus::name_of(got.tensor.dtype()), " instead of ", gradus::name_of(want.tensor.dtype()));
  if (got.tensor.dtype() == DType::i64 && !fits(got.tensor, want.type)) throw Skip{Skip::Reason::dtype_missing, name_of(want.type) + " that wraps around"};
  return visit_dtype(want.tensor.dtype(), [&](auto tag) -> std::string {
    using T = decltype(tag);
    const auto a = got.tensor.to_vector<T>(), b = want.tensor.to_vector<T>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      if (x == y || (std::isnan(x) && std::isnan(y)) || std::abs(x - y) <= tolerance.absolute + tolerance.relative * std::abs(y)) continue;
      std::ostringstream text;
      text.precision(17);
      text << "element " << i << " is " << x << " instead of " << y;
      return text.str();
    }
    return "";
  });
}

std::string run_case(const std::filesystem::path& folder) {
  const Model model = parse_model(read(folder / "model.onnx"));
  for (const auto& ports : {model.inputs, model.outputs})
    for (const Port& port : ports) (void)dtype_of(port.type);
  const bool rough = has_rough_constants(folder.filename().string());
  int sets = 0;
  for (;; ++sets) {
    const std::filesystem::path data = folder / cat("test_data_set_", sets);
    if (!std::filesystem::is_directory(data)) break;
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < model.inputs.size(); ++i) {
      const auto file = data / cat("input_", i, ".pb");
      if (!std::filesystem::exists(file)) break;
      inputs.push_back(read_value(file, model.inputs[i]));
    }
    const std::vector<Value> outputs = run_model(model, inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Value want = read_value(data / cat("output_", i, ".pb"), model.outputs[i]);
      const std::string wrong = difference(outputs[i], want, rough ? loose : tolerance_of(want.type));
      if (!wrong.empty()) return cat("output ", i, ": ", wrong);
    }
  }
  return sets > 0 ? "" : "has no data";
}

}  // namespace gradus::onnx
