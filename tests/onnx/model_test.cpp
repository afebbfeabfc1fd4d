// The reader of protocol buffers and the strictness of the operator table.

#include "tests/catch.hpp"
#include "tests/onnx/runner.hpp"

using namespace gradus;
using namespace gradus::onnx;

namespace {

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) bytes += static_cast<char>(value | 0x80U);
  return bytes + static_cast<char>(value);
}
std::string number_field(unsigned field, std::uint64_t value) { return varint(field << 3U) + varint(value); }
std::string bytes_field(unsigned field, const std::string& bytes) { return varint(field << 3U | 2U) + varint(bytes.size()) + bytes; }

std::string tensor(std::initializer_list<std::uint64_t> dims, Type type, const std::string& raw) {
  std::string bytes;
  for (const std::uint64_t size : dims) bytes += number_field(1, size);
  return bytes + number_field(2, static_cast<std::uint64_t>(type)) + bytes_field(9, raw);
}

Value parsed(const std::string& bytes) { return parse_tensor(Message(bytes)).value; }

Node softmax_node() {
  Node node;
  node.op = "Softmax";
  node.inputs = {"x"};
  node.outputs = {"y"};
  return node;
}
Model model_of(const Node& node) {
  Model model;
  model.opset = 13;
  model.nodes = {node};
  model.inputs = {{"x", Type::f32}};
  model.outputs = {{"y", Type::f32}};
  return model;
}

}  // namespace

TEST_CASE("messages are read field by field and refused where they break the format", "[onnx]") {
  const std::string good = number_field(1, 300) + bytes_field(2, "text") + varint(3U << 3U | 5U) + std::string("\0\0\x80\x3f", 4);
  Message m(good);
  REQUIRE(m.next());
  CHECK(m.varint() == 300);
  REQUIRE(m.next());
  CHECK(m.text() == "text");
  REQUIRE(m.next());
  CHECK(m.number() == 1.0F);
  CHECK_FALSE(m.next());
  const auto walk = [](const std::string& bytes) {
    Message message(bytes);
    while (message.next()) message.skip();
  };
  walk(good);
  for (std::size_t length = 1; length < good.size(); ++length)
    if (length != 3 && length != 9) CHECK_THROWS_AS(walk(good.substr(0, length)), Malformed);
  CHECK_THROWS_AS(walk(number_field(0, 1)), Malformed);
  CHECK_THROWS_AS(walk(varint(1U << 3U | 3U)), Malformed);
  CHECK_THROWS_AS(walk(bytes_field(1, "").substr(0, 1) + varint(~std::uint64_t{0})), Malformed);
  CHECK_THROWS_AS(walk("\x08" + std::string(10, '\xff') + "\x01"), Malformed);
  CHECK_THROWS_AS(walk("\x08" + std::string(9, '\xff') + "\x02"), Malformed);
  Message wrong(good);
  REQUIRE(wrong.next());
  CHECK_THROWS_AS(wrong.bytes(), Malformed);
}

TEST_CASE("tensors come from raw bytes and from typed fields, and their size must fit", "[onnx]") {
  const std::string one("\0\0\x80\x3f", 4);
  CHECK(equal(parsed(tensor({1}, Type::f32, one)).tensor, Tensor::ones({1})));
  CHECK(equal(parsed(number_field(2, 1) + bytes_field(4, one)).tensor, Tensor::scalar(1)));
  CHECK(
      equal(parsed(number_field(1, 2) + number_field(2, 3) + number_field(5, 5) + number_field(5, ~std::uint64_t{0})).tensor, Tensor::of({5, -1}, DType::i64)));
  CHECK(equal(parsed(number_field(2, 10) + number_field(5, 0x3c00)).tensor, Tensor::scalar(1)));
  CHECK(equal(parsed(number_field(2, 16) + bytes_field(9, "\x80\x3f")).tensor, Tensor::scalar(1)));
  CHECK_THROWS_AS(parsed(tensor({2}, Type::f32, one)), Malformed);
  CHECK_THROWS_AS(parsed(tensor({std::uint64_t{1} << 62U, 16}, Type::f32, one)), Malformed);
  CHECK_THROWS_AS(parsed(tensor({~std::uint64_t{0}}, Type::f32, one)), Malformed);
  CHECK_THROWS_AS(parsed(tensor({}, Type::text, "")), Skip);
  CHECK_THROWS_AS(parsed(tensor({}, Type::u64, std::string(8, '\xff'))), Skip);
  CHECK_THROWS_AS(parsed(tensor({1}, Type::f32, one) + number_field(99, 1)), Malformed);
}

TEST_CASE("what an operator does not read makes its case a skip, not a pass", "[onnx]") {
  const Value x{Tensor::of({{0, 0}, {0, 0}}), Type::f32};
  Node node = softmax_node();
  CHECK(difference(run_model(model_of(node), {x}).at(0), {Tensor::full({2, 2}, 0.5), Type::f32}, {}).empty());
  node.attributes["axis"] = {2, 0, 0, "", "", {}, {}, {}};
  CHECK(run_model(model_of(node), {x}).size() == 1);
  node.attributes["axis"].type = 1;
  CHECK_THROWS_AS(run_model(model_of(node), {x}), Malformed);
  node = softmax_node();
  node.attributes["temperature"] = {1, 2.0F, 0, "", "", {}, {}, {}};
  CHECK_THROWS_AS(run_model(model_of(node), {x}), Skip);
  node = softmax_node();
  node.inputs.emplace_back("x");
  CHECK_THROWS_AS(run_model(model_of(node), {x}), Skip);
  node = softmax_node();
  node.outputs.emplace_back("z");
  CHECK_THROWS_AS(run_model(model_of(node), {x}), Skip);
  node = softmax_node();
  node.op = "Softmix";
  CHECK_THROWS_AS(run_model(model_of(node), {x}), Skip);
  node = softmax_node();
  node.inputs[0] = "nothing";
  CHECK_THROWS_AS(run_model(model_of(node), {x}), Malformed);
}

TEST_CASE("differences of shape, type and value are seen", "[onnx]") {
  const Value one{Tensor::ones({2}), Type::f32};
  CHECK(difference(one, one, {}).empty());
  CHECK(difference({Tensor::ones({1, 2}), Type::f32}, one, {}) == "shape (1, 2) instead of (2,)");
  CHECK(difference({Tensor::ones({2}, DType::f64), Type::f64}, one, {}) == "f64 instead of f32");
  CHECK(difference({Tensor::of({1, 1.5}), Type::f32}, one, {0.1, 0.1}) == "element 1 is 1.5 instead of 1");
  CHECK(difference({Tensor::of({1, 1.125}), Type::f32}, one, {0.1, 0.1}).empty());
  CHECK_FALSE(difference({Tensor::full({2}, NAN), Type::f32}, one, {1, 1}).empty());
  CHECK_THROWS_AS(difference({Tensor::full({2}, -1, DType::i64), Type::i64}, {Tensor::zeros({2}, DType::i64), Type::u8}, {}), Skip);
}
