#include "engine/core/shape.hpp"

#include <rapidcheck.h>

#include <limits>
#include <vector>

#include "engine/core/error.hpp"
#include "tests/catch.hpp"

using namespace gradus;

namespace {
constexpr index_t two31 = index_t{1} << 31;
const Shape huge{two31, two31, 4};
}  // namespace

TEST_CASE("dims hold up to eight sizes in order", "[shape]") {
  Dims dims{2, 3};
  CHECK(dims.rank() == 2);
  CHECK(dims[0] == 2);
  CHECK(dims.back() == 3);
  dims.push_back(5);
  dims.insert(0, 7);
  dims.insert(2, 9);
  dims.insert(5, 1);
  CHECK(dims == Dims{7, 2, 9, 3, 5, 1});
  dims.erase(2);
  dims.erase(0);
  dims.erase(3);
  CHECK(dims == Dims{2, 3, 5});
  CHECK(std::vector<index_t>(dims.begin(), dims.end()) == std::vector<index_t>{2, 3, 5});
  CHECK(Dims::filled(3, -1) == Dims{-1, -1, -1});
  CHECK(Dims().empty());
  CHECK_FALSE(Dims{1} == Dims{1, 1});
  CHECK_FALSE(Dims{1, 2} == Dims{1, 3});
}

TEST_CASE("a ninth size is an error that names the eight", "[shape]") {
  Dims dims = Dims::filled(8, 2);
  CHECK_THROWS_WITH(dims.push_back(3), "[shape] rank above 8: (2, 2, 2, 2, 2, 2, 2, 2) and one more. Hint: reshape to fewer axes.");
  CHECK_THROWS_AS(dims.insert(0, 1), ShapeError);
  CHECK(dims == Dims::filled(8, 2));
  CHECK_THROWS_AS(Dims::filled(9, 1), ShapeError);
  CHECK_THROWS_AS((Dims{1, 2, 3, 4, 5, 6, 7, 8, 9}), ShapeError);
}

TEST_CASE("shapes print like Python's tuples", "[shape]") {
  CHECK(to_string(Shape{}) == "()");
  CHECK(to_string(Shape{3}) == "(3,)");
  CHECK(to_string(Shape{3, 0, -4}) == "(3, 0, -4)");
  CHECK(cat(Shape{1, 2}) == "(1, 2)");
}

TEST_CASE("the number of elements is the product, one for rank 0 and zero when any size is", "[shape]") {
  CHECK(numel({}) == 1);
  CHECK(numel({7}) == 7);
  CHECK(numel({2, 3, 4}) == 24);
  CHECK(numel({2, 0, 4}) == 0);
  CHECK(byte_size({2, 3}, DType::f32) == 24);
  CHECK(byte_size({2, 3}, DType::i64) == 48);
  CHECK(byte_size({2, 3}, DType::boolean) == 6);
  CHECK(numel({two31, two31, 0}) == 0);  // empty, whatever the others are
}

TEST_CASE("sizes whose product leaves int64 are an error that names the shape", "[shape][edge]") {
  CHECK_THROWS_WITH(numel(huge), "[shape] size of (2147483648, 2147483648, 4) does not fit 64 bits. Hint: use smaller sizes.");
  CHECK(numel({two31, two31, 1}) == two31 * two31);
  CHECK_THROWS_AS(numel({two31, two31, 2}), ShapeError);
  CHECK_THROWS_AS(byte_size({two31, two31}, DType::f32), ShapeError);
  CHECK_THROWS_AS(contiguous_strides({2, two31, two31, 2}), ShapeError);
  const index_t most = std::numeric_limits<index_t>::max();
  CHECK(numel({most, 1}) == most);
  CHECK(byte_size({most}, DType::boolean) == most);
}

TEST_CASE("strides of large shapes are computed in 64 bits", "[shape][edge]") {
  CHECK(contiguous_strides({3, index_t{1} << 30}) == Strides{index_t{1} << 30, 1});
  CHECK(contiguous_strides({3, 8, index_t{1} << 30}) == Strides{index_t{1} << 33, index_t{1} << 30, 1});
}

TEST_CASE("a negative size is an error, even beside a zero", "[shape]") {
  CHECK_THROWS_WITH(numel({2, -1}), "[shape] negative size in (2, -1). Hint: sizes are 0 or more.");
  CHECK_THROWS_AS(numel({0, -1}), ShapeError);
}

TEST_CASE("contiguous strides step row-major, and sizes 0 and 1 count as 1", "[shape]") {
  CHECK(contiguous_strides({}) == Strides{});
  CHECK(contiguous_strides({5}) == Strides{1});
  CHECK(contiguous_strides({2, 3, 4}) == Strides{12, 4, 1});
  CHECK(contiguous_strides({2, 1, 4}) == Strides{4, 4, 1});
  CHECK(contiguous_strides({2, 0, 4}) == Strides{4, 4, 1});
}

TEST_CASE("shapes broadcast from the end and ones stretch", "[shape]") {
  CHECK(broadcast_shapes({}, {}, "add") == Shape{});
  CHECK(broadcast_shapes({}, {2, 3}, "add") == Shape{2, 3});
  CHECK(broadcast_shapes({4}, {3, 1}, "add") == Shape{3, 4});
  CHECK(broadcast_shapes({2, 1, 4}, {3, 1}, "add") == Shape{2, 3, 4});
  CHECK(broadcast_shapes({1, 3}, {0, 1}, "add") == Shape{0, 3});
  CHECK(broadcast_shapes({1}, {0}, "add") == Shape{0});
}

TEST_CASE("shapes that do not broadcast are an error that names both and the axis", "[shape]") {
  CHECK_THROWS_WITH(broadcast_shapes({2, 3}, {2, 4}, "add"),
                    "[add] shapes (2, 3) and (2, 4) do not broadcast: sizes 3 and 4 at axis -1. Hint: sizes must match or be 1.");
  CHECK_THROWS_WITH(broadcast_shapes({3, 1}, {2, 5}, "mul"),
                    "[mul] shapes (3, 1) and (2, 5) do not broadcast: sizes 3 and 2 at axis -2. Hint: sizes must match or be 1.");
  CHECK_THROWS_AS(broadcast_shapes({0}, {2}, "add"), ShapeError);
}

TEST_CASE("broadcasting is symmetric, idempotent and keeps every size that is not one", "[shape]") {
  const auto shape =
      rc::gen::map(rc::gen::resize(8, rc::gen::container<std::vector<int>>(rc::gen::elementOf(std::vector<int>{0, 1, 3}))), [](const std::vector<int>& sizes) {
        Shape result;
        for (const int size : sizes)
          if (result.rank() < max_rank) result.push_back(size);
        return result;
      });
  CHECK(rc::check([&] {
    const Shape a = *shape, b = *shape;
    Shape both;
    try {
      both = broadcast_shapes(a, b, "test");
    } catch (const ShapeError&) {
      RC_ASSERT_THROWS_AS((void)broadcast_shapes(b, a, "test"), ShapeError);
      return;
    }
    RC_ASSERT(broadcast_shapes(b, a, "test") == both);
    RC_ASSERT(broadcast_shapes(both, a, "test") == both);
    RC_ASSERT(both.rank() == std::max(a.rank(), b.rank()));
    for (int i = 1; i <= a.rank(); ++i) RC_ASSERT(a[a.rank() - i] == 1 || both[both.rank() - i] == a[a.rank() - i]);
  }));
}

TEST_CASE("axes count from either end and are checked", "[shape]") {
  CHECK(normalize_axis(0, 3, "sum") == 0);
  CHECK(normalize_axis(-1, 3, "sum") == 2);
  CHECK(normalize_axis(-3, 3, "sum") == 0);
  CHECK_THROWS_WITH(normalize_axis(3, 3, "sum"), "[sum] axis 3 is out of range for rank 3. Hint: axes go from -3 to 2.");
  CHECK_THROWS_AS(normalize_axis(-4, 3, "sum"), IndexError);
  CHECK_THROWS_WITH(normalize_axis(0, 0, "sum"), "[sum] axis 0 is out of range for rank 0. Hint: a rank-0 tensor has no axes.");
  CHECK_THROWS_AS(normalize_axis(index_t{1} << 32, 3, "sum"), IndexError);
}

TEST_CASE("a list of axes is sorted, none means all, and one named twice is an error", "[shape]") {
  CHECK(normalize_axes({2, 0}, 3, "sum") == Dims{0, 2});
  CHECK(normalize_axes({-1}, 3, "sum") == Dims{2});
  CHECK(normalize_axes({}, 3, "sum") == Dims{0, 1, 2});
  CHECK(normalize_axes({}, 0, "sum") == Dims{});
  CHECK_THROWS_WITH(normalize_axes({1, -2}, 3, "sum"), "[sum] axis -2 is named twice in (1, -2). Hint: name each axis once.");
  CHECK_THROWS_AS(normalize_axes({5}, 3, "sum"), IndexError);
}

TEST_CASE("reduced axes vanish or stay as one", "[shape]") {
  CHECK(reduced_shape({2, 3, 4}, {1}, false) == Shape{2, 4});
  CHECK(reduced_shape({2, 3, 4}, {1}, true) == Shape{2, 1, 4});
  CHECK(reduced_shape({2, 3, 4}, {0, 2}, false) == Shape{3});
  CHECK(reduced_shape({2, 3, 4}, {0, 1, 2}, true) == Shape{1, 1, 1});
  CHECK(reduced_shape({0, 4}, {0}, false) == Shape{4});
  CHECK(reduced_shape({}, {}, true) == Shape{});
}
