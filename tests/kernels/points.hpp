#pragma once
// Points and centres for tests of the distance kernels.

#include "tests/kernels/exact.hpp"

namespace gradus::testing {

/// Random points and centres; rows are not aligned and may be apart.
template <class T>
struct Points {
  index_t n, k, d, gap;
  std::vector<T> x, c;

  Points(index_t points, index_t centres, index_t dimensions, index_t row_gap = 0, std::uint64_t seed = 1)
      : n(points), k(centres), d(dimensions), gap(row_gap) {
    Numbers numbers(seed);
    x = numbers.take<T>(n * (d + gap) + 1);
    c = numbers.take<T>(k * (d + gap) + 1);
  }
  // One element past the start, so that rows are not aligned.
  [[nodiscard]] const T* x_row(index_t i) const { return x.data() + 1 + i * (d + gap); }
  [[nodiscard]] const T* c_row(index_t j) const { return c.data() + 1 + j * (d + gap); }
  /// By the definition in distance.hpp.
  [[nodiscard]] T distance(index_t i, index_t j) const {
    T sum = 0;
    for (index_t p = 0; p < d; ++p) {
      const T t = x_row(i)[p] - c_row(j)[p];
      sum = chain_step(t, t, sum);
    }
    return sum;
  }
};

/// squared_distance of all pairs, `gap` elements between the rows of the result and some behind it, all 77.
template <class T>
std::vector<T> distances(const Points<T>& s, index_t gap = 0) {
  std::vector<T> out(static_cast<std::size_t>(s.n * (s.k + gap) + 8), T{77});
  kernels::active<T>().distance.squared_distance(
      {.n = s.n, .k = s.k, .d = s.d, .x = s.x_row(0), .x_row = s.d + s.gap, .c = s.c_row(0), .c_row = s.d + s.gap, .out = out.data(), .out_row = s.k + gap});
  return out;
}

/// Calls f(float{}) and f(double{}) under every instruction set.
template <class F>
void on_every_isa(const F& f) {
  for (const auto isa : instruction_sets()) {
    const UseIsa use(isa);
    f(float{});
    f(double{});
  }
}

}  // namespace gradus::testing
