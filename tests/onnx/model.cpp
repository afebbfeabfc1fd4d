#include "tests/onnx/model.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "engine/io/bytes.hpp"
#include "engine/io/elements.hpp"

namespace gradus::onnx {
namespace {

using io::Element;
using io::ElementKind;

[[noreturn]] void unknown(const char* message, const Message& m) { throw Malformed(cat("field ", m.field(), " of ", message, " is unknown")); }
[[noreturn]] void no_dtype(Type type) { throw Skip{Skip::Reason::dtype_missing, name_of(type)}; }

Element element_of(Type type) {
  switch (type) {
    case Type::f32: return {ElementKind::floating, 4};
    case Type::f64: return {ElementKind::floating, 8};
    case Type::f16: return {ElementKind::floating, 2};
    case Type::bf16: return {ElementKind::brain_floating, 2};
    case Type::i8: return {ElementKind::integer, 1};
    case Type::i16: return {ElementKind::integer, 2};
    case Type::i32: return {ElementKind::integer, 4};
    case Type::i64:
    case Type::u64: return {ElementKind::integer, 8};
    case Type::u8: return {ElementKind::natural, 1};
    case Type::u16: return {ElementKind::natural, 2};
    case Type::u32: return {ElementKind::natural, 4};
    case Type::boolean: return {ElementKind::boolean, 1};
    default: no_dtype(type);
  }
}

/// Elements that came one number a field, as the bytes they would have had in raw_data.
struct Typed {
  std::string bytes;
  std::size_t size;

  void integer(std::int64_t value) {
    for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 255U);
  }
};

void parse_attribute_value(Message& m, Attribute& attribute) {
  switch (m.field()) {
    case 2: attribute.number = m.number(); break;
    case 3: attribute.integer = m.integer(); break;
    case 4: attribute.text = m.text(); break;
    case 5: attribute.tensor = m.text(); break;
    case 7: m.numbers([&](float value) { attribute.numbers.push_back(value); }); break;
    case 8: m.integers([&](std::int64_t value) { attribute.integers.push_back(value); }); break;
    case 9: attribute.texts.push_back(m.text()); break;
    case 20: attribute.type = m.integer(); break;
    case 13: m.skip(); break;  // a comment
    case 6:
    case 11: throw Skip{Skip::Reason::operator_missing, "(subgraphs)"};
    default: unknown("AttributeProto", m);
  }
}

Node parse_node(Message m) {
  Node node;
  while (m.next()) switch (m.field()) {
      case 1: node.inputs.push_back(m.text()); break;
      case 2: node.outputs.push_back(m.text()); break;
      case 4: node.op = m.text(); break;
      case 7: node.domain = m.text(); break;
      case 5: {
        Message fields = m.message();
        std::string name;
        Attribute attribute;
        while (fields.next()) {
          if (fields.field() == 1) name = fields.text();
          else parse_attribute_value(fields, attribute);
        }
        if (!node.attributes.emplace(name, attribute).second) throw Malformed("attribute " + name + " is repeated");
        break;
      }
      case 3:  // a name
      case 6: m.skip(); break;
      default: unknown("NodeProto", m);
    }
  return node;
}

/// ValueInfoProto: a name and a type, whose shape does not matter here.
Port parse_port(Message m) {
  Port port;
  while (m.next()) switch (m.field()) {
      case 1: port.name = m.text(); break;
      case 2: {
        Message type = m.message();
        while (type.next()) {
          if (type.field() != 1) {
            type.skip();
            continue;
          }
          Message tensor = type.message();
          while (tensor.next()) {
            if (tensor.field() == 1) port.type = static_cast<Type>(tensor.integer());
            else tensor.skip();
          }
        }
        break;
      }
      default: m.skip();
    }
  return port;
}

void parse_graph(Message m, Model& model) {
  while (m.next()) switch (m.field()) {
      case 1: model.nodes.push_back(parse_node(m.message())); break;
      case 5: model.initializers.push_back(parse_tensor(m.message())); break;
      case 11: model.inputs.push_back(parse_port(m.message())); break;
      case 12: model.outputs.push_back(parse_port(m.message())); break;
      case 2:   // a name
      case 10:  // a comment
      case 13:  // types of inner values
        m.skip();
        break;
      default: unknown("GraphProto", m);
    }
  std::erase_if(model.inputs, [&](const Port& port) {
    return std::any_of(model.initializers.begin(), model.initializers.end(), [&](const NamedValue& v) { return v.name == port.name; });
  });
}

}  // namespace

std::string name_of(Type type) {
  constexpr const char* names[] = {"sequence or optional",
                                   "float",
                                   "uint8",
                                   "int8",
                                   "uint16",
                                   "int16",
                                   "int32",
                                   "int64",
                                   "string",
                                   "bool",
                                   "float16",
                                   "double",
                                   "uint32",
                                   "uint64",
                                   "complex64",
                                   "complex128",
                                   "bfloat16"};
  const auto index = static_cast<std::size_t>(type);
  return index < std::size(names) ? names[index] : cat("type ", index);
}

DType dtype_of(Type type) { return element_of(type).dtype(); }

bool fits(const Tensor& tensor, Type type) {
  const Element element = element_of(type);
  const auto bits = static_cast<int>(8 * element.size);
  const bool natural = element.kind == ElementKind::natural || type == Type::u64;
  const index_t greatest = bits == 64 ? std::numeric_limits<index_t>::max() : (index_t{1} << (natural ? bits : bits - 1)) - 1;
  const index_t least = natural ? 0 : -greatest - 1;
  const auto values = tensor.to_vector<index_t>();
  return std::all_of(values.begin(), values.end(), [&](index_t v) { return v >= least && v <= greatest; });
}

NamedValue parse_tensor(Message m) {
  NamedValue result;
  Shape shape;
  Type type = Type::none;
  std::optional<std::string> raw;
  std::vector<std::int64_t> integers;
  std::string floats, doubles;
  while (m.next()) switch (m.field()) {
      case 1: m.integers([&](std::int64_t size) { shape.push_back(size); }); break;
      case 2: type = static_cast<Type>(m.integer()); break;
      case 4: m.numbers([&](float v) { io::put_little(floats, std::bit_cast<std::uint32_t>(v)); }); break;
      case 10: m.wide_numbers([&](double v) { io::put_little(doubles, std::bit_cast<std::uint64_t>(v)); }); break;
      case 5:
      case 7:
      case 11: m.integers([&](std::int64_t v) { integers.push_back(v); }); break;
      case 8: result.name = m.text(); break;
      case 9: raw = m.text(); break;
      case 6:   // texts; their type is refused below
      case 12:  // a comment
        m.skip();
        break;
      default: unknown("TensorProto", m);
    }
  const Element element = element_of(type);
  std::string data = type == Type::f32 ? floats : type == Type::f64 ? doubles : "";
  if (raw) data = *raw;
  else if (data.empty()) {
    Typed typed{"", element.size};
    for (const std::int64_t v : integers) typed.integer(v);
    data = typed.bytes;
  }
  std::size_t need = 0;
  if (std::any_of(shape.begin(), shape.end(), [](index_t size) { return size < 0; }) || !io::stored_size(shape, element.size, need) || need != data.size())
    throw Malformed(cat("a tensor of shape ", shape, " has ", data.size(), " bytes"));
  result.value.type = type;
  result.value.tensor = Tensor::empty(shape, element.dtype());
  if (need > 0)
    visit_dtype(element.dtype(), [&](auto tag) {
      auto* to = reinterpret_cast<std::byte*>(result.value.tensor.mutable_data<decltype(tag)>());
      io::convert_elements(data, element, to, "tensor");
    });
  if (type == Type::u64 && !fits(result.value.tensor, type)) no_dtype(type);
  return result;
}

Model parse_model(std::string_view bytes) {
  Model model;
  Message m(bytes);
  bool graph = false;
  while (m.next()) switch (m.field()) {
      case 7:
        parse_graph(m.message(), model);
        graph = true;
        break;
      case 8: {
        Message opset = m.message();
        std::string domain;
        std::int64_t version = 0;
        while (opset.next()) {
          if (opset.field() == 1) domain = opset.text();
          else if (opset.field() == 2) version = opset.integer();
          else unknown("OperatorSetIdProto", opset);
        }
        if (domain.empty() || domain == "ai.onnx") model.opset = version;
        break;
      }
      case 20:
      case 25: throw Skip{Skip::Reason::operator_missing, "(functions and training of a model)"};
      case 1:
      case 2:
      case 3:
      case 4:
      case 5:
      case 6:
      case 14: m.skip(); break;
      default: unknown("ModelProto", m);
    }
  if (!graph) throw Malformed("a model without a graph");
  return model;
}

}  // namespace gradus::onnx
