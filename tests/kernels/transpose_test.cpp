// Transposed copies move every element to its place and write nothing else.

#include "tests/catch.hpp"
#include "tests/kernels/spans.hpp"

using namespace gradus;
using namespace gradus::testing;

TEMPLATE_TEST_CASE("transpose_moves_every_element_for_every_size_and_stride", "", float, double) {
  const auto transpose = kernels::active<TestType>().transpose.transpose;
  bool right = true;
  for (index_t rows = 0; rows <= 37; ++rows)
    for (index_t columns = 0; columns <= 37; columns += rows % 3 + 1) {
      const index_t x_stride = columns + rows % 4, y_stride = rows + columns % 3;
      const std::vector<TestType> x = Numbers(static_cast<std::uint64_t>(rows * 100 + columns)).take<TestType>(rows * x_stride);
      Guarded<TestType> from(x, rows % 5), to(columns * y_stride, columns % 7);
      const std::vector<TestType> before(to.data(), to.data() + columns * y_stride);
      transpose(from.data(), x_stride, rows, columns, to.data(), y_stride);
      for (index_t j = 0; j < columns; ++j)
        for (index_t i = 0; i < y_stride; ++i) {
          const auto at = static_cast<std::size_t>(j * y_stride + i);
          right = right && same(to[j * y_stride + i], i < rows ? x[static_cast<std::size_t>(i * x_stride + j)] : before[at]);
        }
      right = right && to.surroundings_untouched();
    }
  CHECK(right);
}
