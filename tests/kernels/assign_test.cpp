// Nearest centres and the fused pass of k-means, bit for bit against their definitions in distance.hpp.

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/kernels/points.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

template <class T>
struct Assigned {
  std::vector<T> weights, sums;
  std::vector<index_t> labels;
  double objective = -1;
  index_t tied = -1;
};

template <class T>
Assigned<T> assign(const Points<T>& s, T tolerance) {
  Assigned<T> r{std::vector<T>(static_cast<std::size_t>(s.k)), std::vector<T>(static_cast<std::size_t>(s.k * s.d)),
                std::vector<index_t>(static_cast<std::size_t>(s.n))};
  kernels::active<T>().distance.assign_accumulate({.n = s.n,
                                                   .k = s.k,
                                                   .d = s.d,
                                                   .x = s.x_row(0),
                                                   .x_row = s.d + s.gap,
                                                   .c = s.c_row(0),
                                                   .c_row = s.d + s.gap,
                                                   .tolerance = tolerance,
                                                   .weights = r.weights.data(),
                                                   .sums = r.sums.data(),
                                                   .labels = r.labels.data(),
                                                   .objective = &r.objective,
                                                   .tied = &r.tied});
  return r;
}

// The same by the definition in distance.hpp; no NaN and no infinity in the data.
template <class T>
Assigned<T> assign_by_definition(const Points<T>& s, T tolerance) {
  const index_t blocks = (s.n + kernels::distance_block_rows - 1) / kernels::distance_block_rows, size = s.k + s.k * s.d;
  std::vector<T> parts(static_cast<std::size_t>(std::max<index_t>(blocks, 1) * size));
  std::vector<double> objectives(static_cast<std::size_t>(std::max<index_t>(blocks, 1)));
  Assigned<T> r{{}, {}, {}, 0, 0};
  std::vector<T> row(static_cast<std::size_t>(s.k));
  for (index_t i = 0; i < s.n; ++i) {
    for (index_t j = 0; j < s.k; ++j) row[static_cast<std::size_t>(j)] = s.distance(i, j);
    const T least = *std::min_element(row.begin(), row.end()), bound = least + tolerance * (1 + least);
    const auto near = [bound](T v) { return v <= bound; };
    const index_t count = std::count_if(row.begin(), row.end(), near), block = i / kernels::distance_block_rows;
    const T w = 1 / static_cast<T>(count);
    T* part = parts.data() + block * size;
    for (index_t j = 0; j < s.k; ++j) {
      if (!near(row[static_cast<std::size_t>(j)])) continue;
      part[j] += w;
      for (index_t p = 0; p < s.d; ++p) part[s.k + j * s.d + p] = chain_step(w, s.x_row(i)[p], part[s.k + j * s.d + p]);
    }
    objectives[static_cast<std::size_t>(block)] += static_cast<double>(least);
    r.labels.push_back(std::find_if(row.begin(), row.end(), near) - row.begin());
    r.tied += count > 1;
  }
  merge_in_tree(parts, blocks, size);
  merge_in_tree(objectives, blocks, 1);
  r.objective = objectives[0];
  r.weights.assign(parts.begin(), parts.begin() + s.k);
  r.sums.assign(parts.begin() + s.k, parts.begin() + size);
  return r;
}

template <class T>
void check_equal(const Assigned<T>& got, const Assigned<T>& want) {
  CHECK(std::equal(want.weights.begin(), want.weights.end(), got.weights.begin(), same<T>));
  CHECK(std::equal(want.sums.begin(), want.sums.end(), got.sums.begin(), same<T>));
  CHECK(got.labels == want.labels);
  CHECK(same(got.objective, want.objective));
  CHECK(got.tied == want.tied);
}

}  // namespace

TEST_CASE("nearest_takes_the_lowest_index_of_equal_distances_and_the_first_nan") {
  on_every_isa([](auto tag) {
    using T = decltype(tag);
    const T nan = std::numeric_limits<T>::quiet_NaN();
    for (index_t k = 1; k <= 40; ++k)
      for (index_t first = 0; first < k; ++first) {
        // Centres at 3, but `first` and every third one after it at 1; the second point is NaN, the third infinitely far.
        std::vector<T> c(static_cast<std::size_t>(k), T{3});
        for (index_t j = first; j < k; j += 3) c[static_cast<std::size_t>(j)] = 1;
        const std::vector<T> x = {T{0.5}, nan, std::numeric_limits<T>::infinity(), T{0}};
        std::vector<index_t> index(4, -1);
        std::vector<T> distance(4);
        const kernels::NearestArgs<T> args{
            .n = 4, .k = k, .d = 1, .x = x.data(), .x_row = 1, .c = c.data(), .c_row = 1, .index = index.data(), .distance = distance.data()};
        kernels::active<T>().distance.nearest(args);
        REQUIRE(index == std::vector<index_t>{first, 0, 0, first});
        REQUIRE((distance[0] == T{0.25} && std::isnan(distance[1]) && std::isinf(distance[2]) && distance[3] == T{1}));
        c[static_cast<std::size_t>(first)] = nan;
        kernels::active<T>().distance.nearest(args);
        REQUIRE(index == std::vector<index_t>{first, 0, first, first});
        REQUIRE(std::isnan(distance[0]));
      }
  });
}

TEST_CASE("nearest_gives_the_bits_of_squared_distance") {
  on_every_isa([](auto tag) {
    using T = decltype(tag);
    for (const index_t k : {1, 4, 8, 9, 31, 32, 100, 1500}) {
      const Points<T> s(700, k, 6, 1);
      const std::vector<T> all = distances(s);
      std::vector<index_t> index(static_cast<std::size_t>(s.n));
      std::vector<T> distance(static_cast<std::size_t>(s.n));
      kernels::active<T>().distance.nearest(
          {.n = s.n, .k = k, .d = 6, .x = s.x_row(0), .x_row = 7, .c = s.c_row(0), .c_row = 7, .index = index.data(), .distance = distance.data()});
      index_t wrong = 0;
      for (index_t i = 0; i < s.n; ++i) {
        const auto row = all.begin() + i * k;
        const index_t best = std::min_element(row, row + k) - row;
        wrong += index[static_cast<std::size_t>(i)] != best || !same(distance[static_cast<std::size_t>(i)], row[best]);
      }
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("assign_accumulate_gives_the_promised_bits") {
  on_every_isa([](auto tag) {
    using T = decltype(tag);
    for (const index_t n : {0, 1, 5, 1023, 1024, 1025, 3000, 70000})
      for (const index_t k : {1, 3, 8, 20}) {
        const Points<T> s(n, k, 1 + k % 7, 1);
        INFO("n " << n << " k " << k);
        check_equal(assign(s, T{1e-6f}), assign_by_definition(s, T{1e-6f}));
      }
    const Points<T> many(300001, 16, 4);  // more blocks than tasks: each adds up a part of the tree
    check_equal(assign(many, T{0}), assign_by_definition(many, T{0}));
    const Points<T> wide(2000, 33, 19);
    check_equal(assign(wide, T{0}), assign_by_definition(wide, T{0}));
  });
}

TEST_CASE("assign_accumulate_splits_ties_evenly_and_within_the_tolerance") {
  on_every_isa([](auto tag) {
    using T = decltype(tag);
    for (const index_t k : {2, 5, 8, 9, 17, 40}) {
      Points<T> s(500, k, 2);
      for (T& v : s.x) v = std::round(v);
      for (T& v : s.c) v = std::round(v);
      std::copy_n(s.c.begin() + 1, 2, s.c.begin() + 3);  // the second centre equals the first
      const Assigned<T> got = assign(s, T{0});
      check_equal(got, assign_by_definition(s, T{0}));
      CHECK(got.tied > 0);
      for (const T tolerance : {T{0.25}, T{3}}) check_equal(assign(s, tolerance), assign_by_definition(s, tolerance));
    }
    // Distances 1 and 1.21: apart exactly when the tolerance is below 0.105.
    Points<T> two(1, 2, 1);
    two.x = {0, 0};
    two.c = {0, T{1.1f}, T{-1}};
    CHECK(assign(two, T{0.1f}).weights == std::vector<T>{0, 1});
    CHECK(assign(two, T{0.1f}).labels[0] == 1);
    CHECK(assign(two, T{0.11f}).weights == std::vector<T>{T{0.5}, T{0.5}});
    CHECK(assign(two, T{0.11f}).labels[0] == 0);
    CHECK(assign(two, T{0.11f}).tied == 1);
  });
}

TEST_CASE("assign_accumulate_shows_nan_rows_and_gives_infinite_rows_no_weight") {
  on_every_isa([](auto tag) {
    using T = decltype(tag);
    for (const index_t k : {1, 4, 9, 20}) {
      Points<T> s(3, k, 1);
      s.x[2] = std::numeric_limits<T>::infinity();
      const Assigned<T> infinite = assign(s, T{1e-6f});
      T total = 0;
      for (const T w : infinite.weights) total += w;
      CHECK(total == T{2});
      CHECK(infinite.labels[1] == 0);
      CHECK(std::isinf(infinite.objective));
      s.x[2] = std::numeric_limits<T>::quiet_NaN();
      const Assigned<T> broken = assign(s, T{1e-6f});
      CHECK(std::all_of(broken.weights.begin(), broken.weights.end(), [](T v) { return std::isnan(v); }));
      CHECK(std::all_of(broken.sums.begin(), broken.sums.end(), [](T v) { return std::isnan(v); }));
      CHECK(std::isnan(broken.objective));
    }
  });
}

TEST_CASE("assign_accumulate_takes_null_outputs") {
  const Points<float> s(5000, 3, 2);
  const Assigned<float> all = assign(s, 0.0f);
  kernels::AssignArgs<float> args{.n = s.n, .k = s.k, .d = s.d, .x = s.x_row(0), .x_row = s.d, .c = s.c_row(0), .c_row = s.d};
  kernels::active<float>().distance.assign_accumulate(args);
  double objective = -1;
  args.objective = &objective;
  kernels::active<float>().distance.assign_accumulate(args);
  CHECK(objective == all.objective);
}

TEST_CASE("distance_kernels_give_equal_bits_for_1_2_and_4_threads") {
  const Points<float> s(200000, 9, 5);
  const auto run = [&](int threads) {
    const UseThreads use(threads);
    return std::pair(distances(s), assign(s, 1e-6f));
  };
  const auto one = run(1);
  for (const int threads : {2, 4}) {
    const auto several = run(threads);
    CHECK(several.first == one.first);
    check_equal(several.second, one.second);
  }
}
