#pragma once
// ONNX models as far as the operator tests need them: https://onnx.ai/onnx/repo-docs/IR.html

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tensor/tensor.hpp"
#include "tests/onnx/protobuf.hpp"

namespace gradus::onnx {

/// TensorProto.DataType.
enum class Type : std::int32_t {
  none = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  text = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  c64 = 14,
  c128 = 15,
  bf16 = 16,
};
[[nodiscard]] std::string name_of(Type type);

/// Why a case was not run: a part of ONNX that the engine or this reader does not have.
struct Skip {
  enum class Reason : std::uint8_t { operator_missing, dtype_missing, attribute_unsupported, law, count } reason;
  std::string what;
};

/// A tensor and what ONNX calls its type: integers are held as i64, f16 and bf16 as f32.
struct Value {
  Tensor tensor;
  Type type = Type::none;
};

/// A TensorProto. Types that the engine has no room for are a Skip.
struct NamedValue {
  std::string name;
  Value value;
};
[[nodiscard]] NamedValue parse_tensor(Message message);

/// The dtype that holds a type; none is a Skip.
[[nodiscard]] DType dtype_of(Type type);
/// True when every element of an i64 tensor could be stored in the integer type.
[[nodiscard]] bool fits(const Tensor& tensor, Type type);

struct Attribute {
  std::int64_t type = 0;  ///< AttributeProto.AttributeType
  float number = 0;
  std::int64_t integer = 0;
  std::string text;
  std::string tensor;  ///< bytes of a TensorProto
  std::vector<float> numbers;
  std::vector<std::int64_t> integers;
  std::vector<std::string> texts;
};

struct Node {
  std::string op, domain;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, Attribute> attributes;
};

struct Port {
  std::string name;
  Type type = Type::none;  ///< none: a sequence, map or optional
};

struct Model {
  std::int64_t opset = 0;
  std::vector<Node> nodes;
  std::vector<Port> inputs, outputs;  ///< inputs without those that have an initializer
  std::vector<NamedValue> initializers;
};

/// A ModelProto. What it holds beyond this reader is a Skip, damage is Malformed.
[[nodiscard]] Model parse_model(std::string_view bytes);

}  // namespace gradus::onnx
