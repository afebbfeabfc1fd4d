#include "engine/tensor/tensor.hpp"

#include <cmath>
#include <limits>

#include "engine/tensor/view.hpp"
#include "tests/catch.hpp"

using namespace gradus;

namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("tensors are built from nested lists, spans and numbers", "[tensor]") {
  const Tensor t = Tensor::of({{1, 2, 3}, {4, 5, 6}}, DType::f64);
  CHECK(t.shape() == Shape{2, 3});
  CHECK(t.at({1, 2}) == 6);
  CHECK(t.at({-2, -1}) == 3);
  CHECK(Tensor::of(7.5).rank() == 0);
  CHECK(Tensor::of(7.5).item() == 7.5);
  CHECK(Tensor::of(std::initializer_list<Nested>{}).shape() == Shape{0});
  CHECK(equal(Tensor::from(std::vector<std::int64_t>{0, 1, 2}, {3}), Tensor::arange(3)));
  CHECK(Tensor::identity(3).at({1, 1}) == 1);
  CHECK(Tensor::identity(3).at({1, 2}) == 0);
}

TEST_CASE("a ragged list, a wrong count and a wrong dtype are errors", "[tensor]") {
  CHECK_THROWS_AS(Tensor::of({{1, 2}, {3}}), ShapeError);
  CHECK_THROWS_AS(Tensor::of({{1, 2}, 3}), ShapeError);
  CHECK_THROWS_AS(Tensor::from(std::vector<float>{1, 2, 3}, {2, 2}), ShapeError);
  CHECK_THROWS_AS(Tensor::ones({2}).data<double>(), DTypeError);
  CHECK_THROWS_AS(Tensor::full({1}, std::nan(""), DType::i64), ValueError);
  CHECK_THROWS_AS(Tensor::empty({std::int64_t{1} << 31, std::int64_t{1} << 31, 4}, DType::f32), ShapeError);
}

TEST_CASE("element access names the index and the shape", "[tensor]") {
  const Tensor t = Tensor::zeros({2, 3});
  CHECK_THROWS_AS(t.at({2, 0}), IndexError);
  CHECK_THROWS_AS(t.at({0, -4}), IndexError);
  CHECK_THROWS_AS(t.at({0}), IndexError);
  const std::string message = message_of([&] { (void)t.at({0, 3}); });
  CHECK(message.find("index 3") != std::string::npos);
  CHECK(message.find("(2, 3)") != std::string::npos);
}

TEST_CASE("views share storage and writing through one shows in all", "[tensor][view]") {
  Tensor t = Tensor::of({{1, 2, 3}, {4, 5, 6}});
  Tensor row = view::select(t, 0, 1);
  row.set({0}, 40);
  CHECK(t.at({1, 0}) == 40);
  CHECK(view::transpose(t, 0, 1).at({0, 1}) == 40);
  CHECK(view::transpose(t, 0, 1).buffer().same_as(t.buffer()));
  CHECK(t.version() == row.version());
}

TEST_CASE("slices take steps and negative bounds as in Python", "[tensor][view]") {
  const Tensor t = Tensor::arange(10);
  const auto values = [&](Slice s) { return view::slice(t, 0, s).to_vector<std::int64_t>(); };
  using V = std::vector<std::int64_t>;
  CHECK(values({2, 5}) == V{2, 3, 4});
  CHECK(values({-3}) == V{7, 8, 9});
  CHECK(values({1, Slice::none, 4}) == V{1, 5, 9});
  CHECK(values({Slice::none, Slice::none, -3}) == V{9, 6, 3, 0});
  CHECK(values({8, 2, -2}) == V{8, 6, 4});
  CHECK(values({5, 5}).empty());
  CHECK(values({100, 200}).empty());
  CHECK(values({-100, 3}) == V{0, 1, 2});
  CHECK(values({2, -100, -1}) == V{2, 1, 0});
  CHECK_THROWS_AS(view::slice(t, 0, {0, 3, 0}), ValueError);
}

TEST_CASE("reshape is a view where strides allow and a copy elsewhere", "[tensor][view]") {
  const Tensor t = Tensor::arange(24);
  const Tensor cube = view::reshape(t, {2, 3, -1});
  CHECK(cube.shape() == Shape{2, 3, 4});
  CHECK(cube.buffer().same_as(t.buffer()));
  const Tensor swapped = view::permute(cube, {1, 0, 2});
  CHECK(view::try_reshape(swapped, {3, 2, 2, 2}).has_value());
  CHECK_FALSE(view::try_reshape(swapped, {6, 4}).has_value());
  const Tensor flat = view::reshape(swapped, {6, 4});
  CHECK(flat.to_vector<std::int64_t>() == swapped.to_vector<std::int64_t>());
  CHECK_THROWS_AS(view::reshape(t, {5, -1}), ShapeError);
  CHECK_THROWS_AS(view::reshape(t, {-1, -1}), ShapeError);
  CHECK(view::reshape(Tensor::zeros({0, 3}), {3, 0}).shape() == Shape{3, 0});
}

TEST_CASE("every split and join of a permuted tensor keeps the order of its elements", "[tensor][view]") {
  const Tensor t = view::permute(view::reshape(Tensor::arange(48), {2, 3, 4, 2}), {2, 0, 3, 1});
  for (const Shape& shape : {Shape{4, 2, 2, 3}, Shape{8, 6}, Shape{4, 12}, Shape{48}, Shape{4, 1, 2, 2, 3}, Shape{2, 2, 2, 6}, Shape{1, 4, 4, 3}})
    CHECK(view::reshape(t, shape).to_vector<std::int64_t>() == t.to_vector<std::int64_t>());
}

TEST_CASE("writing to an expanded view is refused", "[tensor][view]") {
  Tensor wide = view::expand(Tensor::ones({1, 3}), {2, 3});
  CHECK(wide.overlaps_itself());
  CHECK_THROWS_AS(wide.set({0, 0}, 2), ValueError);
  CHECK_THROWS_AS(copy_into(wide, Tensor::zeros({2, 3})), ValueError);
  CHECK(copy(wide).to_vector<float>() == std::vector<float>(6, 1.0f));
  CHECK_THROWS_AS(view::expand(Tensor::ones({2, 3}), {3, 3}), ShapeError);
}

TEST_CASE("a huge expanded view costs no memory and its sizes are checked", "[tensor][view]") {
  const Tensor big = view::expand(Tensor::ones({1, 1}), {3, std::int64_t{1} << 30});
  CHECK(big.numel() == 3 * (std::int64_t{1} << 30));
  CHECK(big.at({2, (std::int64_t{1} << 30) - 1}) == 1);
}

TEST_CASE("equality and closeness", "[tensor]") {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const Tensor a = Tensor::of({1, nan}, DType::f64);
  CHECK_FALSE(equal(a, a));
  CHECK(equal(a, a, true));
  CHECK(bit_equal(a, copy(a)));
  CHECK(equal(Tensor::of({0.0}), Tensor::of({-0.0})));
  CHECK_FALSE(bit_equal(Tensor::of({0.0}), Tensor::of({-0.0})));
  CHECK(all_close(Tensor::of({1.0, inf}, DType::f64), Tensor::of({1.0 + 1e-9, inf}, DType::f64)));
  CHECK_FALSE(all_close(Tensor::of({inf}, DType::f64), Tensor::of({-inf}, DType::f64)));
  CHECK_FALSE(all_close(Tensor::of({nan}, DType::f64), Tensor::of({nan}, DType::f64)));
  CHECK(max_difference(Tensor::of({1, 2}), Tensor::of({1, 5})) == 3);
  CHECK(std::isnan(max_difference(Tensor::of({nan, 2}), Tensor::of({1, 5}))));
  CHECK_THROWS_AS(all_close(Tensor::of({1}), Tensor::of({1}, DType::f64)), DTypeError);
}

TEST_CASE("tensors print like numpy's", "[tensor][print]") {
  CHECK(to_string(Tensor::of({{1, -2.5}, {10, 0}})) == "[[ 1.0000, -2.5000],\n [10.0000,  0.0000]]");
  CHECK(to_string(Tensor::of({1, 2, 30}, DType::i64)) == "[ 1,  2, 30]");
  CHECK(to_string(Tensor::of({1, 0}, DType::boolean)) == "[ true, false]");
  CHECK(to_string(Tensor::of(2)) == "2.0000");
  CHECK(to_string(Tensor::zeros({0})) == "[]");
  CHECK(to_string(Tensor::of({1e-6, 1.0})) == "[1.0000e-06, 1.0000e+00]");
  CHECK(to_string(Tensor::of({std::nan(""), -std::numeric_limits<double>::infinity()})) == "[ nan, -inf]");
  const std::string large = to_string(Tensor::arange(2000));
  CHECK(large == "[   0,    1,    2, ..., 1997, 1998, 1999]");
  CHECK(to_string(Tensor::zeros({1, 1, 1})) == "[[[0.0000]]]");
  CHECK(to_string(Tensor::of({{{1}, {2}}, {{3}, {4}}}, DType::i64)) == "[[[1],\n  [2]],\n\n [[3],\n  [4]]]");
}
