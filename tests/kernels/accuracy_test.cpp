// How exact the kernels are: a table of largest errors, written to accuracy.md in the build folder and held to bounds. Functions of one
// number are measured in units in the last place of the exact result. Sums of products have no such unit, since terms may cancel:
// theirs is eps times the sum of the magnitudes of the terms, and that of rows of weights or normalised numbers eps times the largest.

#include <cstdio>
#include <fstream>
#include <functional>

#include "tests/catch.hpp"
#include "tests/kernels/spans.hpp"

using namespace gradus;
using namespace gradus::testing;
using kernels::Unary;

namespace {

using Row = std::vector<long double>;
constexpr index_t rows = 64, n = 300, d = 24;

// The largest error of one kernel.
struct Measured {
  std::string name;
  double worst;
};

template <class T>
double in_eps(T got, long double exact, long double scale) {
  if (scale == 0) return 0;
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / scale / static_cast<long double>(std::numeric_limits<T>::epsilon()));
}

template <class T>
double unary_error(Unary kind, long double (*exact)(long double), double low, double high) {
  Numbers numbers(5);
  std::vector<T> x(200000), y(x.size());
  for (T& v : x) v = static_cast<T>(low + (numbers.next<double>() + 2) / 4 * (high - low));
  kernels::active<T>().elementwise.unary[static_cast<std::size_t>(kind)](x.data(), y.data(), static_cast<index_t>(x.size()));
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) worst = std::max(worst, ulps<T>(y[i], exact(static_cast<long double>(x[i]))));
  return worst;
}

template <class T>
std::vector<Measured> functions() {
  return {{"exp on [-80, 80]", unary_error<T>(
                                   Unary::exp, [](long double x) { return std::exp(x); }, -80, 80)},
          {"log on (0, 100)", unary_error<T>(
                                  Unary::log, [](long double x) { return std::log(x); }, 1e-3, 100)},
          {"tanh on [-9, 9]", unary_error<T>(
                                  Unary::tanh, [](long double x) { return std::tanh(x); }, -9, 9)},
          {"sigmoid on [-30, 30]", unary_error<T>(
                                       Unary::sigmoid, [](long double x) { return 1 / (1 + std::exp(-x)); }, -30, 30)},
          {"erf on [-4, 4]", unary_error<T>(
                                 Unary::erf, [](long double x) { return std::erf(x); }, -4, 4)},
          {"sin on [-30, 30]", unary_error<T>(
                                   Unary::sin, [](long double x) { return std::sin(x); }, -30, 30)},
          {"gelu on [0, 8]", unary_error<T>(
                                 Unary::gelu, [](long double x) { return x * std::erfc(-x / std::sqrt(2.0L)) / 2; }, 0, 8)},
          {"silu on [-30, 30]", unary_error<T>(
                                    Unary::silu, [](long double x) { return x / (1 + std::exp(-x)); }, -30, 30)}};
}

// The largest error of rows of a kernel's output against f(row), relative to the largest exact element.
template <class T>
double row_error(const std::vector<T>& x, const std::vector<T>& y, const std::function<Row(const Row&)>& f) {
  double worst = 0;
  for (index_t r = 0; r < rows; ++r) {
    const Row exact = f(Row(x.begin() + r * n, x.begin() + (r + 1) * n));
    long double largest = 0;
    for (const auto v : exact) largest = std::max(largest, std::fabs(v));
    for (index_t i = 0; i < n; ++i) worst = std::max(worst, in_eps(y[static_cast<std::size_t>(r * n + i)], exact[static_cast<std::size_t>(i)], largest));
  }
  return worst;
}

Row softmax_of(const Row& x) {
  const long double top = *std::max_element(x.begin(), x.end());
  Row y;
  long double sum = 0;
  for (const auto v : x) sum += y.emplace_back(std::exp(v - top));
  for (auto& v : y) v /= sum;
  return y;
}
Row normalised(const Row& x, bool centred) {
  long double mean = 0, square = 0;
  for (const auto v : x) mean += v / static_cast<long double>(x.size());
  if (!centred) mean = 0;
  for (const auto v : x) square += (v - mean) * (v - mean) / static_cast<long double>(x.size());
  Row y;
  for (const auto v : x) y.push_back((v - mean) / std::sqrt(square + 1e-5L));
  return y;
}

template <class T>
std::vector<Measured> row_kernels() {
  const auto& table = kernels::active<T>();
  std::vector<T> x = Numbers(6).take<T>(rows * n), y(x.size());
  for (T& v : x) v *= T{4};
  std::vector<Measured> all;
  const auto add = [&](const char* name, const std::function<Row(const Row&)>& f) { all.push_back({name, row_error<T>(x, y, f)}); };
  table.softmax.softmax(x.data(), rows, n, 1, y.data());
  add("softmax, rows of 300", softmax_of);
  table.softmax.log_softmax(x.data(), rows, n, 1, y.data());
  add("log_softmax, rows of 300", [](const Row& r) {
    Row v = softmax_of(r);
    for (auto& e : v) e = std::log(e);
    return v;
  });
  const kernels::RowNormArgs<T> args{x.data(), rows, n, static_cast<T>(1e-5), nullptr};
  table.row_norm.layer_norm(args, nullptr, y.data());
  add("layer_norm, rows of 300", [](const Row& r) { return normalised(r, true); });
  table.row_norm.rms_norm(args, nullptr, y.data());
  add("rms_norm, rows of 300", [](const Row& r) { return normalised(r, false); });
  return all;
}

template <class T>
std::vector<Measured> sums() {
  const auto& table = kernels::active<T>();
  const std::vector<T> a = Numbers(7).take<T>(rows * n), b = Numbers(8).take<T>(rows * n);
  std::vector<T> c(rows * rows), s(rows), e(rows * rows);
  table.gemm.gemm({.m = rows, .n = rows, .k = n, .a = a.data(), .a_row = n, .b = b.data(), .b_row = 1, .b_col = n, .c = c.data(), .c_row = rows});
  table.reduce[kernels::Reduction::sum].rows(a.data(), rows, n, n, s.data());
  kernels::DistanceArgs<T> args{.n = rows, .k = rows, .d = d, .x = a.data(), .x_row = n};
  args.c = b.data();
  args.c_row = n;
  args.out = e.data();
  args.out_row = rows;
  table.distance.squared_distance(args);
  double product = 0, sum = 0, distance = 0;
  for (index_t i = 0; i < rows; ++i) {
    long double total = 0, magnitude = 0;
    for (index_t p = 0; p < n; ++p) {
      total += a[static_cast<std::size_t>(i * n + p)];
      magnitude += std::fabs(a[static_cast<std::size_t>(i * n + p)]);
    }
    sum = std::max(sum, in_eps(s[static_cast<std::size_t>(i)], total, magnitude));
    for (index_t j = 0; j < rows; ++j) {
      long double exact = 0, terms = 0, squares = 0;
      for (index_t p = 0; p < n; ++p) {
        const auto x = static_cast<long double>(a[static_cast<std::size_t>(i * n + p)]), y = static_cast<long double>(b[static_cast<std::size_t>(j * n + p)]);
        exact += x * y;
        terms += std::fabs(x * y);
        if (p < d) squares += (x - y) * (x - y);
      }
      product = std::max(product, in_eps(c[static_cast<std::size_t>(i * rows + j)], exact, terms));
      distance = std::max(distance, in_eps(e[static_cast<std::size_t>(i * rows + j)], squares, squares));
    }
  }
  return {{"sum of 300", sum}, {"product of matrices, k = 300", product}, {"squared distance, 24 coordinates", distance}};
}

template <class T>
std::vector<Measured> everything() {
  std::vector<Measured> all = functions<T>();
  for (const auto& more : {row_kernels<T>(), sums<T>()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

// What the documentation of math.hpp promises, and for sums their worst order.
double bound_of(std::size_t row) {
  constexpr double functions[] = {1.1, 1.0, 1.4, 1.5, 1.7, 1.0, 3, 3};
  return row < std::size(functions) ? functions[row] : 16;
}

}  // namespace

TEST_CASE("errors_of_the_kernels_in_units_of_the_last_place") {
  std::ofstream file(std::string(GRADUS_BINARY_DIR) + "/accuracy.md");
  file << "| kernel | f32 | f64 |\n|---|---|---|\n";
  const auto f32 = everything<float>();
  const auto f64 = everything<double>();
  for (std::size_t i = 0; i < f32.size(); ++i) {
    char line[160];
    std::snprintf(line, sizeof line, "| %s | %.2f | %.2f |\n", f32[i].name.c_str(), f32[i].worst, f64[i].worst);
    file << line;
    INFO(line);
    CHECK(f32[i].worst <= bound_of(i));
    CHECK(f64[i].worst <= bound_of(i));
  }
}
