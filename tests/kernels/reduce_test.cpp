// Reductions, bit for bit against the tree that reduce.hpp promises, in every layout.

#include "tests/catch.hpp"
#include "tests/kernels/spans.hpp"

using namespace gradus;
using namespace gradus::testing;
using kernels::Reduction;
using kernels::reduction_lanes;
using kernels::segment_length;

namespace {

constexpr Reduction all_reductions[] = {Reduction::sum, Reduction::prod, Reduction::max, Reduction::min};

template <class T>
const kernels::ReductionKernels<T>& table(Reduction kind) {
  return kernels::active<T>().reduce[kind];
}

template <class T>
T identity(Reduction kind) {
  switch (kind) {
    case Reduction::sum: return 0;
    case Reduction::prod: return 1;
    case Reduction::max: return -std::numeric_limits<T>::infinity();
    default: return std::numeric_limits<T>::infinity();
  }
}
template <class T>
T merged(Reduction kind, T a, T b) {
  switch (kind) {
    case Reduction::sum: return a + b;
    case Reduction::prod: return a * b;
    case Reduction::max: return std::isnan(a) || a > b ? a : b;
    default: return std::isnan(a) || a < b ? a : b;
  }
}

// The tree, as reduce.hpp describes it: pairs of equal size level by level, what is left over kept for the next level.
template <class T>
T reduced(Reduction kind, const std::vector<T>& x) {
  std::vector<std::vector<T>> blocks;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i % kernels::block_length == 0) blocks.emplace_back(reduction_lanes, identity<T>(kind));
    T& lane = blocks.back()[i % reduction_lanes];
    lane = merged(kind, lane, x[i]);
  }
  if (blocks.empty()) return identity<T>(kind);
  for (std::size_t step = 1; step < blocks.size(); step *= 2)
    for (std::size_t i = 0; i + step < blocks.size(); i += 2 * step)
      for (std::size_t l = 0; l < reduction_lanes; ++l) blocks[i][l] = merged(kind, blocks[i][l], blocks[i + step][l]);
  std::vector<T>& lane = blocks[0];
  for (std::size_t half = reduction_lanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lane[l] = merged(kind, lane[l], lane[l + half]);
  return lane[0];
}

// Values whose products neither overflow nor vanish.
template <class T>
std::vector<T> values(index_t n, std::uint64_t seed) {
  std::vector<T> x = Numbers(seed).take<T>(n);
  for (T& v : x) v = v < 0 ? v / 8 - 1 : 1 - v / 8;
  return x;
}

const index_t long_lengths[] = {255, 256, 257, 511, 512, 513, 1024, 1500, 2047, 2048, 2049, 4095, 4096, 5000, 8191, 10000, segment_length - 1, segment_length};

template <class T>
void check_rows() {
  bool right = true;
  const auto check = [&](index_t n, index_t offset) {
    for (const Reduction kind : all_reductions) {
      const index_t rows = 1 + n % 19, stride = n + offset % 3;
      const std::vector<T> x = values<T>(rows * stride, static_cast<std::uint64_t>(n));
      Guarded<T> from(x, offset), to(rows, offset);
      table<T>(kind).rows(from.data(), rows, n, stride, to.data());
      for (index_t r = 0; r < rows; ++r) right = right && same(to[r], reduced(kind, std::vector<T>(x.begin() + r * stride, x.begin() + r * stride + n)));
      right = right && to.surroundings_untouched();
    }
  };
  for (index_t n = 0; n <= 67; ++n)
    for (index_t offset = 0; offset < 16; ++offset) check(n, offset);
  for (const index_t n : long_lengths) check(n, n % 16);
  CHECK(right);
}

template <class T>
void check_columns() {
  bool right = true;
  const auto check = [&](index_t n, index_t inner, index_t offset) {
    const index_t stride = inner + offset % 5;
    const std::vector<T> x = values<T>(n * stride + inner, static_cast<std::uint64_t>(n + inner));
    for (const Reduction kind : all_reductions) {
      Guarded<T> from(x, offset), to(inner, offset), lanes(reduction_lanes * inner, offset), again(inner);
      table<T>(kind).columns(from.data(), n, stride, inner, to.data());
      table<T>(kind).columns_partial(from.data(), n, stride, inner, lanes.data());
      table<T>(kind).merge(lanes.data(), 1, inner, again.data());
      std::vector<T> column(static_cast<std::size_t>(n));
      for (index_t j = 0; j < inner; ++j) {
        for (index_t i = 0; i < n; ++i) column[static_cast<std::size_t>(i)] = from[i * stride + j];
        const T wanted = reduced(kind, column);
        right = right && same(to[j], wanted) && same(again[j], wanted);
      }
      right = right && to.surroundings_untouched() && lanes.surroundings_untouched() && again.surroundings_untouched();
    }
  };
  for (index_t n = 0; n <= 35; ++n)
    for (index_t inner = 1; inner <= 67; inner += 1 + n % 3) check(n, inner, (n + inner) % 16);
  for (const index_t n : {255, 256, 257, 1000, 3000}) check(n, 70, n % 16);
  check(segment_length, 3, 1);
  check(500, 200, 0);
  CHECK(right);
}

template <class T>
void check_segments() {
  bool right = true;
  for (const index_t n : {segment_length + 1, 2 * segment_length, 3 * segment_length + 777, 5 * segment_length - 1, 7 * segment_length + 300}) {
    const std::vector<T> x = values<T>(n, static_cast<std::uint64_t>(n));
    const index_t segments = (n + segment_length - 1) / segment_length;
    for (const Reduction kind : {Reduction::sum, Reduction::max}) {
      std::vector<T> lanes(static_cast<std::size_t>(segments * reduction_lanes)), column_lanes = lanes;
      for (index_t s = 0; s < segments; ++s) {
        const index_t start = s * segment_length, length = std::min(segment_length, n - start);
        table<T>(kind).rows_partial(x.data() + start, length, lanes.data() + s * reduction_lanes);
        table<T>(kind).columns_partial(x.data() + start, length, 1, 1, column_lanes.data() + s * reduction_lanes);
      }
      T whole, cut, column;
      table<T>(kind).rows(x.data(), 1, n, n, &whole);
      table<T>(kind).merge(lanes.data(), segments, 1, &cut);
      table<T>(kind).merge(column_lanes.data(), segments, 1, &column);
      const T wanted = reduced(kind, x);
      right = right && same(whole, wanted) && same(cut, wanted) && same(column, wanted);
    }
  }
  CHECK(right);
}

template <class T>
void check_arg() {
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  const auto& reduce = kernels::active<T>().reduce;
  bool right = true;
  for (index_t n = 1; n <= 67; ++n)
    for (index_t at = 0; at < n; ++at) {
      // Three rows: an extreme in one place, ties from that place on, a NaN there and another after it.
      std::vector<T> x(static_cast<std::size_t>(3 * n), T{1});
      const auto place = [&](index_t row) { return x.begin() + row * n + at; };
      for (const bool greatest : {true, false}) {
        const T extreme = greatest ? T{2} : T{0};
        *place(0) = extreme;
        std::fill(place(1), x.begin() + 2 * n, extreme);
        std::fill(place(2), x.end(), nan);
        Guarded<index_t> y(3);
        (greatest ? reduce.argmax : reduce.argmin)(x.data(), 3, n, n, y.data());
        right = right && y[0] == at && y[1] == at && y[2] == at && y.surroundings_untouched();
      }
    }
  CHECK(right);
}

}  // namespace

TEMPLATE_TEST_CASE("rows_are_reduced_in_the_promised_tree", "", float, double) { on_every_isa(check_rows<TestType>); }
TEMPLATE_TEST_CASE("columns_are_reduced_in_the_promised_tree", "", float, double) { on_every_isa(check_columns<TestType>); }
TEMPLATE_TEST_CASE("segments_merged_give_the_bits_of_the_whole", "", float, double) { on_every_isa(check_segments<TestType>); }
TEMPLATE_TEST_CASE("argmax_and_argmin_take_the_lowest_index_and_the_first_nan", "", float, double) { on_every_isa(check_arg<TestType>); }

TEMPLATE_TEST_CASE("max_and_min_are_nan_wherever_the_nan_is", "", float, double) {
  on_every_isa([] {
    bool right = true;
    for (index_t n = 1; n <= 67; ++n)
      for (index_t at = 0; at < n; ++at)
        for (const Reduction kind : {Reduction::max, Reduction::min}) {
          std::vector<TestType> x(static_cast<std::size_t>(n), TestType{1});
          x[static_cast<std::size_t>(at)] = std::numeric_limits<TestType>::quiet_NaN();
          TestType row, column;
          table<TestType>(kind).rows(x.data(), 1, n, n, &row);
          table<TestType>(kind).columns(x.data(), n, 1, 1, &column);
          right = right && std::isnan(row) && std::isnan(column);
        }
    CHECK(right);
  });
}

TEST_CASE("a_million_tenths_add_up_to_a_hundred_thousand") {
  const std::vector<float> x(1000000, 0.1f);
  on_every_isa([&] {
    float sum;
    table<float>(Reduction::sum).rows(x.data(), 1, 1000000, 1000000, &sum);
    CHECK(std::fabs(sum / 1e5 - 1) < 1e-6);
  });
}

TEST_CASE("nothing_sums_to_zero_and_multiplies_to_one") {
  on_every_isa([] {
    double y[3] = {7, 7, 7};
    table<double>(Reduction::sum).rows(nullptr, 3, 0, 0, y);
    CHECK((y[0] == 0 && y[1] == 0 && y[2] == 0));
    table<double>(Reduction::prod).columns(nullptr, 0, 3, 3, y);
    CHECK((y[0] == 1 && y[1] == 1 && y[2] == 1));
  });
}
