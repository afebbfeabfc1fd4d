// The kernels of attention: packed products, blocks of softmax, and what dropout spares.

#include "engine/core/random.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/spans.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

template <class T>
void check_survival() {
  const Random random(0x123456789ABCDEF, 77);
  for (const double p : {0.0, 0.01, 0.5, 0.999999}) {
    const kernels::Survival<T> survival{random.seed(), random.stream_key(), survival_threshold(p), static_cast<T>(1 / (1 - p))};
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{31}, std::uint64_t{32}, std::uint64_t{1} << 40})
      for (const index_t n : {0, 1, 15, 32, 33, 100}) {
        constexpr index_t rows = 3, stride = 131;
        Guarded<T> got(rows * n, 3);
        kernels::active<T>().attention.survival(survival, first, stride, rows, n, got.data());
        bool right = got.surroundings_untouched();
        for (index_t i = 0; i < rows * n; ++i) {
          const auto element = first + static_cast<std::uint64_t>(i / n * stride + i % n);
          right = right && got[i] == (random.survives(element, p) ? survival.factor : T{0});
        }
        INFO("p " << p << " first " << first << " n " << n);
        CHECK(right);
      }
  }
}

// C = A B for parts of a packed B against the same chains of plain products.
template <class T>
void check_packed() {
  const auto& gemm = kernels::active<T>().gemm;
  for (const index_t n : {1, 10, 31, 32, 42, 64, 75})
    for (const index_t k : {1, 7, 40, 600}) {
      constexpr index_t m = 13;
      const std::vector<T> a = Numbers(1).take<T>(m * k), b = Numbers(2).take<T>(k * n);
      std::vector<T> packed(static_cast<std::size_t>(gemm.packed_elements(k, n)));
      gemm.pack(b.data(), 1, k, k, n, packed.data());  // b holds B transposed
      for (const index_t column : {0, 32}) {
        if (column >= n) continue;
        const index_t row = k / 3, columns = n - column, rows = k - row;
        const kernels::GemmArgs<T> plain{.m = m, .n = columns, .k = rows, .a = a.data() + row, .a_row = k, .b = b.data() + row + column * k};
        std::vector<T> wanted = Numbers(3).take<T>(m * columns);
        Guarded<T> got(wanted, 1);
        kernels::GemmArgs<T> args = plain;
        args.b_row = 1;
        args.b_col = k;
        args.c = wanted.data();
        args.c_row = columns;
        args.accumulate = true;
        gemm.gemm(args);
        kernels::PackedGemmArgs<T> part{.m = m, .n = columns, .k = rows, .a = a.data() + row, .a_row = k};
        part.b = packed.data();
        part.b_rows = k;
        part.b_row = row;
        part.b_col = column;
        part.c = got.data();
        part.c_row = columns;
        part.accumulate = true;
        gemm.gemm_packed(part);
        INFO("n " << n << " k " << k << " column " << column);
        CHECK(std::equal(wanted.begin(), wanted.end(), got.data()));
        CHECK(got.surroundings_untouched());
      }
    }
}

// Softmax over blocks of keys, put together, is the softmax of the whole row; its backward is the formula's.
template <class T>
void check_softmax(index_t n, index_t block) {
  constexpr index_t rows = 9;
  const T scale = static_cast<T>(-1.7), tolerance = 40 * std::numeric_limits<T>::epsilon();
  const std::vector<T> scores = Numbers(4).take<T>(rows * n);
  std::vector<T> top(rows, -std::numeric_limits<T>::infinity()), total(rows), correction(rows), weights(scores.size());
  const auto& kernel = kernels::active<T>().attention;
  for (index_t j = 0; j < n; j += block) {
    const index_t columns = std::min(block, n - j);
    std::vector<T> part(static_cast<std::size_t>(rows * columns));
    for (index_t i = 0; i < rows; ++i) std::copy_n(scores.data() + i * n + j, columns, part.data() + i * columns);
    kernels::SoftmaxBlock<T> args{.rows = rows, .n = columns, .scale = scale, .scores = part.data(), .weights = part.data()};
    args.top = top.data();
    args.total = total.data();
    args.correction = correction.data();
    kernel.softmax_block(args);
    kernel.scale_rows(weights.data(), rows, n, correction.data());
    for (index_t i = 0; i < rows; ++i) std::copy_n(part.data() + i * columns, columns, weights.data() + i * n + j);
  }
  std::vector<T> upstream = Numbers(5).take<T>(rows * n), again(scores.size()), mean(rows), logarithm(rows);
  const std::vector<T> given = upstream;
  for (index_t i = 0; i < rows; ++i) {
    const auto at = static_cast<std::size_t>(i);
    logarithm[at] = std::log(total[at]);
    for (index_t j = 0; j < n; ++j)
      mean[at] += weights[at * static_cast<std::size_t>(n) + static_cast<std::size_t>(j)] / total[at] * given[static_cast<std::size_t>(i * n + j)];
  }
  kernels::SoftmaxBlockBackward<T> back{.rows = rows, .n = n, .scale = scale, .slope = 3, .scores = scores.data(), .weights = again.data()};
  back.upstream = upstream.data();
  back.top = top.data();
  back.logarithm = logarithm.data();
  back.mean = mean.data();
  kernel.softmax_block_backward(back);
  INFO("n " << n << " block " << block);
  for (index_t i = 0; i < rows; ++i) {
    long double sum = 0, greatest = -1e30L;
    for (index_t j = 0; j < n; ++j) greatest = std::max(greatest, static_cast<long double>(scale) * scores[static_cast<std::size_t>(i * n + j)]);
    for (index_t j = 0; j < n; ++j) sum += std::exp(static_cast<long double>(scale) * scores[static_cast<std::size_t>(i * n + j)] - greatest);
    for (index_t j = 0; j < n; ++j) {
      const auto at = static_cast<std::size_t>(i * n + j), row = static_cast<std::size_t>(i);
      const auto exact = static_cast<double>(std::exp(static_cast<long double>(scale) * scores[at] - greatest) / sum);
      CHECK(std::fabs(static_cast<double>(weights[at] / total[row]) - exact) <= static_cast<double>(tolerance) * exact);
      CHECK(std::fabs(static_cast<double>(again[at]) - exact) <= static_cast<double>(tolerance) * exact);
      CHECK(std::fabs(static_cast<double>(upstream[at]) - 3 * exact * static_cast<double>(given[at] - mean[row])) <=
            10 * static_cast<double>(tolerance) * exact);
    }
  }
}

}  // namespace

TEST_CASE("survival_is_what_the_stream_says_on_every_instruction_set") {
  for (const auto isa : instruction_sets()) {
    const UseIsa use(isa);
    INFO(kernels::name_of(isa));
    check_survival<float>();
    check_survival<double>();
  }
}

TEST_CASE("products_with_a_packed_matrix_have_the_bits_of_plain_ones") {
  for (const auto isa : instruction_sets()) {
    const UseIsa use(isa);
    INFO(kernels::name_of(isa));
    check_packed<float>();
    check_packed<double>();
  }
}

TEST_CASE("softmax_in_blocks_is_the_softmax_of_the_row") {
  for (const auto isa : instruction_sets()) {
    const UseIsa use(isa);
    INFO(kernels::name_of(isa));
    for (const auto& [n, block] : {std::pair<index_t, index_t>{1, 1}, {10, 10}, {40, 16}, {70, 32}, {300, 128}}) {
      check_softmax<float>(n, block);
      check_softmax<double>(n, block);
    }
  }
}
