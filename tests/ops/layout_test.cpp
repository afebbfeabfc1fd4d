// Layouts: where every element goes, and what is refused.
#include "engine/ops/layout.hpp"

#include <limits>

#include "engine/ops/elementwise.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

bool same_storage(const Tensor& a, const Tensor& b) { return a.buffer().same_as(b.buffer()); }

}  // namespace

TEST_CASE("views_share_storage_on_and_off_a_tape", "[layout]") {
  Tape tape;
  const Tensor plain = random_normal({1, 3, 3}, DType::f64, 1);
  for (const Tensor& x : {plain, tape.variable(plain)})
    for (const Tensor& y : {squeeze(x, 0), unsqueeze(x, 1), transpose(x), select(x, 1, -1), flip(x, 2), diagonal(x, 1), split(x, 3, 1)[1]})
      CHECK(same_storage(x, y));
}

TEST_CASE("a_view_is_one_step_of_the_tape", "[layout]") {
  Tape tape;
  const Tensor x = tape.variable(random_normal({1, 3, 3}, DType::f64, 1));
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, Tensor (*)(const Tensor&)>>{{"squeeze", [](const Tensor& t) { return squeeze(t, 0); }},
                                                                                {"unsqueeze", [](const Tensor& t) { return unsqueeze(t, -1); }},
                                                                                {"transpose", [](const Tensor& t) { return transpose(t); }},
                                                                                {"select", [](const Tensor& t) { return select(t, 1, 0); }},
                                                                                {"flip", [](const Tensor& t) { return flip(t, 1); }},
                                                                                {"diagonal", [](const Tensor& t) { return diagonal(t); }}}) {
    const std::int32_t before = tape.steps();
    (void)f(x);
    REQUIRE(tape.steps() == before + 1);
    CHECK(std::string(tape.step(before).op.name) == name);
  }
}

TEST_CASE("split_cuts_into_sizes_or_equal_parts", "[layout]") {
  const Tensor x = f64({{1, 2, 3, 4}, {5, 6, 7, 8}});
  const std::vector<index_t> sizes{1, 0, 3};
  const TensorList parts = split(x, sizes, 1);
  REQUIRE(parts.size() == 3);
  CHECK(equal(parts[0], f64({{1}, {5}})));
  CHECK(parts[1].shape() == Shape{2, 0});
  CHECK(equal(concat(parts, 1), x));
  CHECK(equal(split(x, 2, -1)[1], f64({{3, 4}, {7, 8}})));
  CHECK(equal(gradient([](const Tensor& t) { return split(t, 2)[1]; }, x, Tensor::ones({1, 4}, DType::f64)), f64({{0, 0, 0, 0}, {1, 1, 1, 1}})));
  CHECK_THROWS_AS(split(x, 3, 1), ShapeError);
  CHECK_THROWS_AS(split(x, 0, 1), ShapeError);
  CHECK_THROWS_AS(split(x, sizes, 0), ShapeError);
  CHECK_THROWS_AS(split(x, std::vector<index_t>{-1, 5}, 1), ValueError);
  CHECK_THROWS_AS(split(x, 2, 2), IndexError);
}

TEST_CASE("roll_moves_elements_around_the_axis", "[layout]") {
  const Tensor x = f64({1, 2, 3, 4, 5});
  CHECK(equal(roll(x, 0, 2), f64({4, 5, 1, 2, 3})));
  CHECK(equal(roll(x, 0, -1), f64({2, 3, 4, 5, 1})));
  CHECK(equal(roll(x, -1, 13), roll(x, 0, 3)));
  CHECK(equal(roll(x, 0, std::numeric_limits<index_t>::min()), roll(x, 0, std::numeric_limits<index_t>::min() % 5)));
  CHECK(equal(roll(x, 0, 5), x));
  CHECK(roll(Tensor::zeros({0, 2}), 0, 1).shape() == Shape{0, 2});
  CHECK_THROWS_AS(roll(Tensor::scalar(1), 0, 1), IndexError);
}

TEST_CASE("repeat_tiles_one_axis", "[layout]") {
  const Tensor x = f64({{1, 2}, {3, 4}});
  CHECK(equal(repeat(x, 1, 2), f64({{1, 2, 1, 2}, {3, 4, 3, 4}})));
  CHECK(equal(repeat(x, 0, 2), f64({{1, 2}, {3, 4}, {1, 2}, {3, 4}})));
  CHECK(repeat(x, 0, 0).shape() == Shape{0, 2});
  CHECK(equal(repeat(x, 0, 1), x));
  CHECK(repeat(Tensor::ones({1, 1, 1, 1, 1, 1, 1, 2}), 3, 4).shape() == Shape{1, 1, 1, 4, 1, 1, 1, 2});
  CHECK_THROWS_AS(repeat(x, 0, -1), ValueError);
  CHECK_THROWS_AS(repeat(x, 0, std::numeric_limits<index_t>::max()), ShapeError);
}

TEST_CASE("triangles_select_by_the_diagonal", "[layout]") {
  const Tensor x = f64({{1, 2, 3}, {4, 5, 6}});
  CHECK(equal(tril(x), f64({{1, 0, 0}, {4, 5, 0}})));
  CHECK(equal(tril(x, 1), f64({{1, 2, 0}, {4, 5, 6}})));
  CHECK(equal(triu(x), f64({{1, 2, 3}, {0, 5, 6}})));
  CHECK(equal(triu(x, -1), x));
  for (const index_t far : {std::numeric_limits<index_t>::max(), index_t{3}}) {
    CHECK(equal(tril(x, far), x));
    CHECK(equal(triu(x, far), Tensor::zeros({2, 3}, DType::f64)));
  }
  for (const index_t far : {std::numeric_limits<index_t>::min(), index_t{-2}}) {
    CHECK(equal(tril(x, far), Tensor::zeros({2, 3}, DType::f64)));
    CHECK(equal(triu(x, far), x));
  }
  CHECK(equal(tril(f64({{1, std::numeric_limits<double>::quiet_NaN()}, {2, 3}})), f64({{1, 0}, {2, 3}})));
  CHECK(equal(tril(Tensor::ones({2, 2}, DType::boolean)), booleans({{1, 0}, {1, 1}})));
  CHECK_THROWS_AS(tril(f64({1, 2})), ShapeError);
}

TEST_CASE("diagonals_are_taken_and_put_back", "[layout]") {
  const Tensor x = f64({{1, 2, 3}, {4, 5, 6}});
  CHECK(equal(diagonal(x), f64({1, 5})));
  CHECK(equal(diagonal(x, 1), f64({2, 6})));
  CHECK(equal(diagonal(x, 2), f64({3.0})));
  CHECK(equal(diagonal(x, -1), f64({4.0})));
  for (const index_t offset : {std::numeric_limits<index_t>::min(), index_t{-2}, index_t{3}, std::numeric_limits<index_t>::max()})
    CHECK(diagonal(x, offset).shape() == Shape{0});
  for (index_t offset = -2; offset <= 3; ++offset) CHECK(equal(embed_diagonal(diagonal(x, offset), 2, 3, offset), tril(triu(x, offset), offset)));
  CHECK(equal(diagonal(transpose(flip(x, 0))), f64({4, 2})));
  CHECK_THROWS_AS(diagonal(f64({1})), ShapeError);
  CHECK_THROWS_AS(embed_diagonal(f64({1, 2, 3}), 2, 2), ShapeError);
  CHECK_THROWS_AS(embed_diagonal(f64({1, 2}), -2, 2), ValueError);
}

TEST_CASE("wrong_layouts_are_refused_before_any_work", "[layout]") {
  const Tensor x = Tensor::ones({2, 3});
  CHECK_THROWS_AS(squeeze(x, 0), ShapeError);
  CHECK_THROWS_AS(unsqueeze(x, 3), IndexError);
  CHECK_THROWS_AS(transpose(f64({1})), IndexError);
  CHECK_THROWS_AS(select(x, 0, 2), IndexError);
  CHECK_THROWS_AS(select(x, 0, -3), IndexError);
  CHECK_THROWS_AS(pad(x, 0, -1, 0), ValueError);
  CHECK_THROWS_AS(stack(std::vector<Tensor>{x, Tensor::ones({3, 2})}), ShapeError);
  CHECK_THROWS_AS(stack(std::vector<Tensor>{x, Tensor::ones({2, 3}, DType::f64)}), DTypeError);
  CHECK_THROWS_AS(stack(std::vector<Tensor>{}), ValueError);
  CHECK_THROWS_AS(stack(std::vector<Tensor>{x, x}, 3), IndexError);
  CHECK_THROWS_AS(embedding(f64({1, 2}), Tensor::arange(2)), ShapeError);
  CHECK_THROWS_AS(embedding(x, x), DTypeError);
  CHECK(equal(one_hot(Tensor::from(std::vector<index_t>{1, 0, 2, 1}, {2, 2}), 3), Tensor::of({{{0, 1, 0}, {1, 0, 0}}, {{0, 0, 1}, {0, 1, 0}}})));
  CHECK_THROWS_AS(one_hot(x, 3), DTypeError);
  CHECK_THROWS_AS(one_hot(Tensor::arange(2), -1), ValueError);
}

TEST_CASE("indices_on_a_tape_are_read_anew_by_a_replay", "[layout]") {
  Tape tape;
  const Tensor table = tape.variable(f64({{1, 2}, {3, 4}, {5, 6}})), index = tape.input(Tensor::of({0, 2}, DType::i64));
  const Tensor y = embedding(table, index) * 1.0;
  tape.set(index, Tensor::of({1, 1}, DType::i64));
  tape.replay();
  CHECK(equal(tape.backward(y, {.cotangent = Tensor::ones({2, 2}, DType::f64)}).of(table), f64({{0, 0}, {2, 2}, {0, 0}})));
}
