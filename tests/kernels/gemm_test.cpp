// The matrix product, bit for bit against the order of summation that gemm.hpp promises.

#include "engine/core/memory.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/exact.hpp"

using namespace gradus;
using namespace gradus::testing;
using kernels::GemmArgs;
using kernels::split_length;

namespace {

constexpr float poison = std::numeric_limits<float>::quiet_NaN();

struct Layout {
  bool a_transposed = false, b_transposed = false;
  index_t a_gap = 0, b_gap = 0, c_gap = 0;  // elements between rows (of the memory order)
  index_t step = 1;                         // between neighbours within a row of A and B
  index_t misalign = 0;                     // elements in front of each operand
};

struct Problem {
  index_t m, n, k;
  Layout layout{};
  bool accumulate = false;
  index_t batch = 1;
  bool a_shared = false, b_shared = false;
};

// Operands in memory, and C with sentinels in front, between its rows and behind.
template <class T>
struct Operands {
  std::vector<T> a, b, c;
  GemmArgs<T> args;

  Operands(const Problem& p, std::uint64_t seed) {
    const Layout& l = p.layout;
    Numbers numbers(seed);
    const index_t a_line = (l.a_transposed ? p.m : p.k) * l.step + l.a_gap, b_line = (l.b_transposed ? p.k : p.n) * l.step + l.b_gap;
    const index_t a_size = a_line * (l.a_transposed ? p.k : p.m), b_size = b_line * (l.b_transposed ? p.n : p.k), c_line = p.n + l.c_gap;
    a = numbers.take<T>(l.misalign + a_size * (p.a_shared ? 1 : p.batch));
    b = numbers.take<T>(l.misalign + b_size * (p.b_shared ? 1 : p.batch));
    c.assign(static_cast<std::size_t>(l.misalign + p.batch * p.m * c_line + 16), T{77});
    args = {.m = p.m,
            .n = p.n,
            .k = p.k,
            .a = a.data() + l.misalign,
            .a_row = l.a_transposed ? l.step : a_line,
            .a_col = l.a_transposed ? a_line : l.step,
            .b = b.data() + l.misalign,
            .b_row = l.b_transposed ? l.step : b_line,
            .b_col = l.b_transposed ? b_line : l.step,
            .c = c.data() + l.misalign,
            .c_row = c_line,
            .accumulate = p.accumulate,
            .batch = p.batch,
            .a_batch = p.a_shared ? 0 : a_size,
            .b_batch = p.b_shared ? 0 : b_size,
            .c_batch = p.m * c_line};
    for (index_t q = 0; q < p.batch; ++q)
      for (index_t i = 0; i < p.m; ++i)
        for (index_t j = 0; j < p.n; ++j) args.c[q * args.c_batch + i * c_line + j] = p.accumulate ? numbers.next<T>() : T{poison};
  }
};

template <class T>
T expected_element(const GemmArgs<T>& g, index_t q, index_t i, index_t j) {
  const T *a = g.a + q * g.a_batch + i * g.a_row, *b = g.b + q * g.b_batch + j * g.b_col;
  const T before = g.accumulate ? g.c[q * g.c_batch + i * g.c_row + j] : T{0};
  const index_t length = split_length(g.m, g.n, g.k);
  if (length >= g.k) {
    T sum = before;
    for (index_t p = 0; p < g.k; ++p) sum = chain_step(a[p * g.a_col], b[p * g.b_row], sum);
    return sum;
  }
  std::vector<T> parts;
  for (index_t p0 = 0; p0 < g.k; p0 += length) {
    parts.push_back(0);
    for (index_t p = p0; p < std::min(g.k, p0 + length); ++p) parts.back() = chain_step(a[p * g.a_col], b[p * g.b_row], parts.back());
  }
  merge_in_tree(parts, static_cast<index_t>(parts.size()), 1);
  return g.accumulate ? before + parts[0] : parts[0];
}

// The whole of C's memory, sentinels included, as it must be.
template <class T>
std::vector<T> expected(const Operands<T>& o) {
  std::vector<T> c = o.c;
  T* out = c.data() + (o.args.c - o.c.data());
  for (index_t q = 0; q < o.args.batch; ++q)
    for (index_t i = 0; i < o.args.m; ++i)
      for (index_t j = 0; j < o.args.n; ++j) out[q * o.args.c_batch + i * o.args.c_row + j] = expected_element(o.args, q, i, j);
  return c;
}

template <class T>
index_t wrong_elements(const std::vector<T>& got, const std::vector<T>& want) {
  index_t wrong = 0;
  for (std::size_t i = 0; i < want.size(); ++i) wrong += !same(got[i], want[i]);
  return wrong;
}

template <class T>
void check(const Problem& p, std::uint64_t seed = 1) {
  Operands<T> o(p, seed);
  const std::vector<T> want = expected(o);
  kernels::active<T>().gemm.gemm(o.args);
  const index_t wrong = wrong_elements(o.c, want);
  if (wrong == 0) return;
  INFO(kernels::name_of(kernels::active_isa()) << " " << sizeof(T) * 8 << " bits, m " << p.m << " n " << p.n << " k " << p.k << " transposed "
                                               << p.layout.a_transposed << p.layout.b_transposed << " accumulate " << p.accumulate << " batch " << p.batch
                                               << " step " << p.layout.step);
  CHECK(wrong == 0);
}

void check_everywhere(const Problem& p, std::uint64_t seed = 1) {
  for (const auto isa : instruction_sets()) {
    const UseIsa use(isa);
    check<float>(p, seed);
    check<double>(p, seed);
  }
}

}  // namespace

TEST_CASE("gemm_gives_the_promised_bits_for_every_tiny_shape_and_transposition") {
  for (index_t m = 1; m <= 7; ++m)
    for (index_t n = 1; n <= 9; ++n)
      for (index_t k = 1; k <= 5; ++k)
        for (int variant = 0; variant < 8; ++variant)
          check_everywhere(
              {.m = m, .n = n, .k = k, .layout = {.a_transposed = (variant & 1) != 0, .b_transposed = (variant & 2) != 0}, .accumulate = variant >= 4});
  SUCCEED("checked inside");
}

TEST_CASE("gemm_gives_the_promised_bits_for_shapes_up_to_33") {
  const index_t sizes[] = {1, 2, 3, 5, 6, 7, 8, 9, 12, 13, 15, 16, 17, 24, 25, 31, 32, 33};
  std::uint64_t turn = 0;
  for (const index_t m : sizes)
    for (const index_t n : sizes)
      for (const index_t k : sizes) {
        const std::uint64_t v = Numbers(turn++).bits();
        check_everywhere({.m = m,
                          .n = n,
                          .k = k,
                          .layout = {.a_transposed = (v & 1) != 0, .b_transposed = (v & 2) != 0, .c_gap = v & 4 ? 3 : 0},
                          .accumulate = (v & 8) != 0},
                         turn);
      }
  SUCCEED("checked inside");
}

TEST_CASE("gemm_keeps_its_bits_across_blocks_of_rows_columns_and_k") {
  const Problem problems[] = {{.m = 97, .n = 130, .k = 257}, {.m = 100, .n = 530, .k = 300}, {.m = 200, .n = 20, .k = 513}, {.m = 5, .n = 700, .k = 600},
                              {.m = 3, .n = 700, .k = 600},  {.m = 1, .n = 300, .k = 1030},  {.m = 300, .n = 1, .k = 520},  {.m = 25, .n = 17, .k = 2040}};
  for (Problem p : problems)
    for (int variant = 0; variant < 4; ++variant) {
      p.layout = {.a_transposed = (variant & 1) != 0, .b_transposed = (variant & 2) != 0};
      p.accumulate = variant == 1 || variant == 2;
      check_everywhere(p);
    }
  SUCCEED("checked inside");
}

TEST_CASE("gemm_takes_any_strides_and_any_alignment") {
  for (const index_t misalign : {0, 1, 2, 3, 5, 7})
    for (const index_t step : {1, 2, 5})
      for (const index_t size : {4, 19, 150})
        check_everywhere({.m = size,
                          .n = size + 3,
                          .k = size + 1,
                          .layout = {.a_transposed = misalign % 2 == 1,
                                     .b_transposed = step == 2,
                                     .a_gap = 3,
                                     .b_gap = misalign,
                                     .c_gap = 1 + step,
                                     .step = step,
                                     .misalign = misalign}});
  SUCCEED("checked inside");
}

TEST_CASE("gemm_does_batches_and_shares_operands") {
  for (const index_t batch : {2, 7, 33, 150})
    for (const bool a_shared : {false, true})
      for (const bool b_shared : {false, true})
        check_everywhere({.m = 10,
                          .n = 11,
                          .k = 12,
                          .layout = {.b_transposed = batch % 2 == 0},
                          .accumulate = batch == 7,
                          .batch = batch,
                          .a_shared = a_shared,
                          .b_shared = b_shared});
  check_everywhere({.m = 120, .n = 110, .k = 100, .batch = 3});  // each large enough for threads of its own
  SUCCEED("checked inside");
}

TEST_CASE("split_length_depends_on_the_shape_and_bounds_the_parts") {
  CHECK(split_length(3, 5, 2047) == 2047);
  CHECK(split_length(3, 5, 2048) == 1024);
  CHECK(split_length(128, 128, 2048) == 1024);
  CHECK(split_length(128, 129, 1 << 20) == 1 << 20);
  CHECK(split_length(1, 1, 64 * 1024) == 1024);
  CHECK(split_length(1, 1, 64 * 1024 + 1) == 2048);
  CHECK(split_length(0, 5, 4096) == 4096);
  for (index_t k = 2048; k < (index_t{1} << 40); k = k * 3 + 1) {
    const index_t length = split_length(32, 16, k), parts = (k + length - 1) / length;
    CHECK(length % 1024 == 0);
    CHECK(parts >= 2);
    CHECK(parts <= 64);
  }
}

TEST_CASE("gemm_merges_the_parts_of_a_long_k_in_the_fixed_tree") {
  for (const index_t k : {2048, 2049, 5000, 70000})
    for (const bool accumulate : {false, true}) {
      check_everywhere({.m = 3, .n = 5, .k = k, .layout = {.a_transposed = true}, .accumulate = accumulate});
      check_everywhere({.m = 1, .n = 1, .k = k, .accumulate = accumulate});
    }
  check_everywhere({.m = 32, .n = 16, .k = 9000, .layout = {.a_transposed = true, .c_gap = 2}, .batch = 3});
  check_everywhere({.m = 4, .n = 3, .k = 3000, .layout = {.b_transposed = true}, .accumulate = true, .batch = 40, .b_shared = true});
  SUCCEED("checked inside");
}

TEST_CASE("gemm_gives_equal_bits_for_1_2_and_4_threads") {
  for (const Problem& p :
       {Problem{.m = 200, .n = 300, .k = 400}, Problem{.m = 32, .n = 16, .k = 100000, .layout = {.a_transposed = true}},
        Problem{.m = 100, .n = 10, .k = 10, .batch = 256}, Problem{.m = 300, .n = 300, .k = 100, .layout = {.b_transposed = true}, .batch = 4}}) {
    Operands<float> first(p, 5);
    {
      const UseThreads one(1);
      kernels::active<float>().gemm.gemm(first.args);
    }
    for (const int threads : {2, 4}) {
      const UseThreads several(threads);
      Operands<float> again(p, 5);
      kernels::active<float>().gemm.gemm(again.args);
      CHECK(wrong_elements(again.c, first.c) == 0);
    }
  }
}

TEST_CASE("gemm_propagates_inf_and_nan_past_zero_factors") {
  for (const auto isa : instruction_sets()) {
    const UseIsa use(isa);
    for (const index_t n : {1, 4, 10, 17, 33})
      for (const index_t m : {1, 5, 6, 13}) {
        Operands<float> o({.m = m, .n = n, .k = 40}, 3);
        std::fill(o.a.begin(), o.a.end(), 0.0f);
        const auto at = [&](index_t p, index_t j) -> float& { return o.b[static_cast<std::size_t>(p * n + j)]; };
        at(7, 0) = std::numeric_limits<float>::infinity();
        at(39, n - 1) = poison;
        kernels::active<float>().gemm.gemm(o.args);
        for (index_t i = 0; i < m; ++i)
          for (index_t j = 0; j < n; ++j) CHECK(std::isnan(o.args.c[i * n + j]) == (j == 0 || j == n - 1));
      }
  }
}

TEST_CASE("gemm_of_an_empty_k_writes_zeros_or_keeps_what_is_there") {
  check_everywhere({.m = 7, .n = 20, .k = 0});
  check_everywhere({.m = 7, .n = 20, .k = 0, .accumulate = true});
  check_everywhere({.m = 0, .n = 20, .k = 5});
  check_everywhere({.m = 7, .n = 0, .k = 5});
  check_everywhere({.m = 7, .n = 20, .k = 5, .batch = 0});
  SUCCEED("checked inside");
}

TEST_CASE("gemm_takes_its_working_memory_from_the_pool_once") {
  Operands<float> o({.m = 200, .n = 300, .k = 400, .layout = {.b_transposed = true}}, 2);
  const UseThreads one(1);  // with more, how many blocks are in use at once is up to chance
  kernels::active<float>().gemm.gemm(o.args);
  const PoolStats before = MemoryPool::instance().stats();
  kernels::active<float>().gemm.gemm(o.args);
  const PoolStats after = MemoryPool::instance().stats();
  CHECK(after.requests > before.requests);
  CHECK(after.misses == before.misses);
  CHECK(after.live_bytes == before.live_bytes);
}
