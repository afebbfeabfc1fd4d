// Distances and their gradients, bit for bit against the order of summation that distance.hpp promises.

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/kernels/points.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

template <class T>
void check_distances(index_t n, index_t k, index_t d, index_t gap) {
  const Points<T> s(n, k, d, gap);
  const std::vector<T> out = distances(s, gap);
  index_t wrong = 0;
  for (index_t at = 0; at < static_cast<index_t>(out.size()); ++at) {
    const index_t i = at / (k + gap), j = at % (k + gap);
    wrong += !same(out[static_cast<std::size_t>(at)], i < n && j < k ? s.distance(i, j) : T{77});
  }
  INFO(kernels::name_of(kernels::active_isa()) << " n " << n << " k " << k << " d " << d << " gap " << gap);
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("squared_distance_gives_the_promised_bits") {
  on_every_isa([](auto tag) {
    using T = decltype(tag);
    for (index_t n = 1; n <= 9; ++n)
      for (index_t k = 1; k <= 35; ++k) check_distances<T>(n, k, 1 + (n * 7 + k * 3) % 11, k % 3);
    for (const index_t d : {0, 1, 2, 3, 16, 33, 70}) check_distances<T>(65, 19, d, 1);
    check_distances<T>(130, 300, 5, 0);
  });
}

TEST_CASE("squared_distance_does_batches_and_shares_operands") {
  on_every_isa([](auto tag) {
    using T = decltype(tag);
    constexpr index_t n = 5, k = 6, d = 3;
    for (const index_t batch : {1, 3, 40})
      for (const bool shared : {false, true}) {
        Numbers numbers(4);
        const std::vector<T> x = numbers.take<T>(batch * n * d), c = numbers.take<T>((shared ? 1 : batch) * k * d);
        std::vector<T> out(static_cast<std::size_t>(batch * n * k));
        kernels::active<T>().distance.squared_distance({.n = n,
                                                        .k = k,
                                                        .d = d,
                                                        .x = x.data(),
                                                        .x_row = d,
                                                        .c = c.data(),
                                                        .c_row = d,
                                                        .out = out.data(),
                                                        .out_row = k,
                                                        .batch = batch,
                                                        .x_batch = n * d,
                                                        .c_batch = shared ? 0 : k * d,
                                                        .out_batch = n * k});
        index_t wrong = 0;
        for (index_t at = 0; at < batch * n * k; ++at) {
          const T *xi = x.data() + at / k * d, *cj = c.data() + (at % k + (shared ? 0 : at / (n * k) * k)) * d;
          T sum = 0;
          for (index_t p = 0; p < d; ++p) sum = chain_step(xi[p] - cj[p], xi[p] - cj[p], sum);
          wrong += !same(out[static_cast<std::size_t>(at)], sum);
        }
        CHECK(wrong == 0);
      }
  });
}

TEST_CASE("squared_distance_keeps_its_digits_far_from_the_origin_and_is_zero_to_itself") {
  on_every_isa([](auto tag) {
    using T = decltype(tag);
    for (index_t d = 1; d <= 20; ++d) {
      Points<T> s(40, 40, d);
      for (T& v : s.x) v += T{1e5};
      s.c = s.x;
      s.c[static_cast<std::size_t>(1 + 3 * d)] = s.x[static_cast<std::size_t>(1 + 3 * d)] + 1;  // one coordinate of centre 3
      const std::vector<T> out = distances(s);
      for (index_t i = 0; i < s.n; ++i) CHECK(out[static_cast<std::size_t>(i * s.k + i)] == (i == 3 ? T{1} : T{0}));
      CHECK(std::all_of(out.begin(), out.end(), [](T v) { return v >= 0; }));
    }
  });
}

TEST_CASE("squared_distance_backward_gives_the_promised_bits") {
  on_every_isa([](auto tag) {
    using T = decltype(tag);
    const std::vector<std::vector<index_t>> shapes = {{1, 1, 1}, {7, 3, 2}, {5, 10, 8}, {33, 5, 17}, {1024, 3, 4}, {1025, 2, 3}, {5000, 4, 5}, {70000, 2, 2}};
    for (const auto& shape : shapes) {
      const index_t n = shape[0], k = shape[1], d = shape[2];
      const Points<T> s(n, k, d, 2);
      const std::vector<T> g = Numbers(9).take<T>(n * k);
      std::vector<T> gx(static_cast<std::size_t>(n * d)), gc(static_cast<std::size_t>(k * (d + 1)), T{77});
      const auto run = [&](T* to_points, T* to_centres) {
        kernels::active<T>().distance.squared_distance_backward({.n = n,
                                                                 .k = k,
                                                                 .d = d,
                                                                 .x = s.x_row(0),
                                                                 .x_row = d + 2,
                                                                 .c = s.c_row(0),
                                                                 .c_row = d + 2,
                                                                 .g = g.data(),
                                                                 .g_row = k,
                                                                 .gx = to_points,
                                                                 .gx_row = d,
                                                                 .gc = to_centres,
                                                                 .gc_row = d + 1});
      };
      run(gx.data(), gc.data());
      const index_t blocks = (n + kernels::distance_block_rows - 1) / kernels::distance_block_rows;
      std::vector<T> parts(static_cast<std::size_t>(blocks * k * d));
      index_t wrong = 0;
      for (index_t i = 0; i < n; ++i)
        for (index_t p = 0; p < d; ++p) {
          T sum = 0;
          for (index_t j = 0; j < k; ++j) {
            const T w = g[static_cast<std::size_t>(i * k + j)], t = s.x_row(i)[p] - s.c_row(j)[p];
            T& part = parts[static_cast<std::size_t>((i / kernels::distance_block_rows * k + j) * d + p)];
            sum = chain_step(w, t, sum);
            part = chain_step(w, -t, part);
          }
          wrong += !same(gx[static_cast<std::size_t>(i * d + p)], sum + sum);
        }
      merge_in_tree(parts, blocks, k * d);
      for (index_t j = 0; j < k; ++j) {
        for (index_t p = 0; p < d; ++p) {
          const T part = parts[static_cast<std::size_t>(j * d + p)];
          wrong += !same(gc[static_cast<std::size_t>(j * (d + 1) + p)], part + part);
        }
        wrong += gc[static_cast<std::size_t>(j * (d + 1) + d)] != T{77};
      }
      INFO("n " << n << " k " << k << " d " << d);
      CHECK(wrong == 0);
      // Either alone gives the same.
      std::vector<T> only_gx(gx.size()), only_gc(gc.size(), T{77});
      run(only_gx.data(), nullptr);
      run(nullptr, only_gc.data());
      CHECK(only_gx == gx);
      CHECK(only_gc == gc);
    }
  });
}

TEST_CASE("squared_distance_backward_is_the_gradient") {
  constexpr index_t n = 2000, k = 7, d = 3, batch = 2;
  Numbers numbers(12);
  const std::vector<double> x = numbers.take<double>(batch * n * d), c = numbers.take<double>(k * d), g = numbers.take<double>(batch * n * k);
  std::vector<double> gx(x.size()), gc(static_cast<std::size_t>(batch * k * d));
  kernels::active<double>().distance.squared_distance_backward({.n = n,
                                                                .k = k,
                                                                .d = d,
                                                                .x = x.data(),
                                                                .x_row = d,
                                                                .c = c.data(),
                                                                .c_row = d,
                                                                .g = g.data(),
                                                                .g_row = k,
                                                                .gx = gx.data(),
                                                                .gx_row = d,
                                                                .gc = gc.data(),
                                                                .gc_row = d,
                                                                .batch = batch,
                                                                .x_batch = n * d,
                                                                .c_batch = 0,
                                                                .g_batch = n * k,
                                                                .gx_batch = n * d,
                                                                .gc_batch = k * d});
  std::vector<long double> want_gx(x.size()), want_gc(gc.size());
  for (index_t i = 0; i < batch * n; ++i)
    for (index_t j = 0; j < k; ++j)
      for (index_t p = 0; p < d; ++p) {
        const long double v = 2.0L * g[static_cast<std::size_t>(i * k + j)] *
                              (static_cast<long double>(x[static_cast<std::size_t>(i * d + p)]) - c[static_cast<std::size_t>(j * d + p)]);
        want_gx[static_cast<std::size_t>(i * d + p)] += v;
        want_gc[static_cast<std::size_t>((i / n * k + j) * d + p)] -= v;
      }
  for (std::size_t i = 0; i < gx.size(); ++i) REQUIRE(std::abs(static_cast<double>(want_gx[i]) - gx[i]) < 1e-13 * k);
  for (std::size_t i = 0; i < gc.size(); ++i) REQUIRE(std::abs(static_cast<double>(want_gc[i]) - gc[i]) < 1e-12 * k);
}
