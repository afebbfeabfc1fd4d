#include "engine/core/error.hpp"

#include "engine/core/dtype.hpp"
#include "engine/core/events.hpp"
#include "engine/core/text.hpp"
#include "tests/catch.hpp"

using namespace gradus;

TEST_CASE("an error says where, what and what to do, as three sentences and as three parts", "[error]") {
  const Error error("matmul", "inner sizes differ: 16 and 8", "transpose b");
  CHECK(std::string(error.what()) == "[matmul] inner sizes differ: 16 and 8. Hint: transpose b.");
  CHECK(error.where() == "matmul");
  CHECK(error.problem() == "inner sizes differ: 16 and 8");
  CHECK(error.hint() == "transpose b");
}

TEST_CASE("an error without a hint, or with its own full stops, has no spare ones", "[error]") {
  CHECK(std::string(Error("a", "b").what()) == "[a] b.");
  CHECK(std::string(Error("a", "b.", "c.").what()) == "[a] b. Hint: c.");
  CHECK(std::string(Error("a", "b!", "did you mean 'c'?").what()) == "[a] b! Hint: did you mean 'c'?");
  CHECK(std::string(Error("a", "", "").what()) == "[a] ");
}

TEST_CASE("every kind of error is an Error and none is another kind", "[error]") {
  CHECK_THROWS_AS(throw ShapeError("a", "b"), Error);
  CHECK_THROWS_AS(throw IndexError("a", "b"), Error);
  CHECK_THROWS_AS(throw DTypeError("a", "b"), Error);
  CHECK_THROWS_AS(throw ValueError("a", "b"), Error);
  CHECK_THROWS_AS(throw GraphError("a", "b"), Error);
  CHECK_THROWS_AS(throw IoError("a", "b"), Error);
  CHECK_FALSE(std::is_base_of_v<ShapeError, IndexError>);
  CHECK_FALSE(std::is_base_of_v<ValueError, ShapeError>);
}

TEST_CASE("cat joins what can be printed", "[error]") { CHECK(cat("n = ", 3, ", x = ", 0.5, ' ', std::string("end")) == "n = 3, x = 0.5 end"); }

TEST_CASE("dtypes know their size, name and C++ type", "[dtype]") {
  for (const auto& [dtype, bytes, name] : {std::tuple{DType::f32, 4, "f32"}, {DType::f64, 8, "f64"}, {DType::i64, 8, "i64"}, {DType::boolean, 1, "bool"}}) {
    CHECK(size_of(dtype) == bytes);
    CHECK(std::string(name_of(dtype)) == name);
    visit_dtype(dtype, [expected = dtype, size = bytes](auto value) {
      CHECK(dtype_of<decltype(value)>() == expected);
      CHECK(sizeof(value) == static_cast<std::size_t>(size));
    });
    CHECK(is_floating(dtype) == (dtype == DType::f32 || dtype == DType::f64));
  }
}

TEST_CASE("an op for floating point refuses other dtypes by name", "[dtype]") {
  const auto bytes = [](auto value) { return sizeof(value); };
  CHECK(visit_floating(DType::f32, "exp", bytes) == 4);
  CHECK(visit_floating(DType::f64, "exp", bytes) == 8);
  CHECK_THROWS_WITH(visit_floating(DType::i64, "exp", bytes), "[exp] needs f32 or f64, got i64. Hint: cast first.");
  CHECK_THROWS_AS(visit_floating(DType::boolean, "exp", bytes), DTypeError);
}

TEST_CASE("events are counted", "[events]") {
  const auto before = event_count(Event::zero_weight_row);
  count_event(Event::zero_weight_row);
  count_event(Event::zero_weight_row, 3);
  CHECK(event_count(Event::zero_weight_row) == before + 4);
}

TEST_CASE("a misspelt name is answered with the nearest ones, best first", "[text]") {
  const std::vector<std::string> names{"softmax", "sparsemax", "hardmax", "sum", "mean", "exp"};
  CHECK(suggest_names("sofmax", names) == "did you mean 'softmax'?");
  CHECK(suggest_names("sun", std::vector<std::string>{"sums", "mean", "sum"}) == "did you mean 'sum', 'sums'?");
  CHECK(suggest_names("mena", names) == "did you mean 'mean'?");
  CHECK(suggest_names("exp", names) == "did you mean 'exp'?");
}

TEST_CASE("at most three names are suggested", "[text]") {
  const std::vector<std::string> names{"aa", "ab", "ac", "ad"};
  CHECK(suggest_names("ae", names) == "did you mean 'aa', 'ab', 'ac'?");
}

TEST_CASE("a name far from all others is answered with what there is", "[text]") {
  CHECK(suggest_names("convolution", std::vector<std::string>{"sum", "mean"}) == "known: sum, mean");
  CHECK(suggest_names("convolution", {}) == "");
  std::vector<std::string> many;
  for (int i = 10; i < 23; ++i) many.push_back(std::to_string(i));
  CHECK(suggest_names("convolution", many) == "known: 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, ...");
}
