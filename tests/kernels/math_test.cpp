// The mathematical functions against long double: the error bounds that math.hpp states, over all magnitudes, and special values.

#include "tests/catch.hpp"
#include "tests/kernels/spans.hpp"

using namespace gradus;
using namespace gradus::testing;
using kernels::Unary;

namespace {

long double sigmoid(long double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const long double e = std::exp(x);
  return e / (1 + e);
}

struct Function {
  Unary kind;
  long double (*exact)(long double);
  double float_bound, double_bound;  // in units in the last place
};

const Function functions[] = {
    {Unary::exp, [](long double x) { return std::exp(x); }, 1.1, 1.1},   {Unary::expm1, [](long double x) { return std::expm1(x); }, 1.4, 1.4},
    {Unary::log, [](long double x) { return std::log(x); }, 1.0, 1.0},   {Unary::log1p, [](long double x) { return std::log1p(x); }, 1.0, 1.0},
    {Unary::sin, [](long double x) { return std::sin(x); }, 0.6, 1.0},   {Unary::cos, [](long double x) { return std::cos(x); }, 0.6, 1.0},
    {Unary::tanh, [](long double x) { return std::tanh(x); }, 1.4, 1.4}, {Unary::sigmoid, sigmoid, 1.5, 1.5},
    {Unary::erf, [](long double x) { return std::erf(x); }, 1.5, 1.7},   {Unary::sqrt, [](long double x) { return std::sqrt(x); }, 0.5, 0.5},
    {Unary::reciprocal, [](long double x) { return 1 / x; }, 0.5, 0.5},
};

template <class T>
struct Worst {
  double ulps = 0;
  T at = 0;
};

template <class T>
Worst<T> worst_error(const Function& f, const std::vector<T>& x) {
  std::vector<T> y(x.size());
  kernels::active<T>().elementwise.unary[static_cast<std::size_t>(f.kind)](x.data(), y.data(), static_cast<index_t>(x.size()));
  Worst<T> worst;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = ulps<T>(y[i], f.exact(static_cast<long double>(x[i])));
    if (error > worst.ulps) worst = {error, x[i]};
  }
  return worst;
}

// Bit patterns from one end of the format to the other (NaN and infinities too), then the ranges where functions bend.
std::vector<float> floats() {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 50021) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  return x;
}
std::vector<double> doubles() {
  std::vector<double> x;
  Numbers numbers(7);
  for (int i = 0; i < 40000; ++i) x.push_back(std::bit_cast<double>(numbers.bits() << 11 | numbers.bits() >> 42));
  return x;
}
template <class T>
void append_ranges(std::vector<T>& x) {
  Numbers numbers(8);
  for (int i = 0; i < 40000; ++i) {
    const double u = numbers.next<double>();                                                          // [-2, 2)
    for (const double range : {0.5, 2.0, 15.0, 60.0, 375.0}) x.push_back(static_cast<T>(u * range));  // erf at 2.2, exp at the ends, ...
    x.push_back(static_cast<T>(std::exp2(6 * u)));
  }
}

template <class T>
void check_bounds(std::vector<T> x) {
  append_ranges(x);
  on_every_isa([&] {
    for (const auto& f : functions) {
      const auto worst = worst_error(f, x);
      INFO(kernels::name_of(f.kind) << " at " << worst.at);
      CHECK(worst.ulps <= (sizeof(T) == 4 ? f.float_bound : f.double_bound));
    }
  });
}

template <class T>
T value_of(Unary kind, T x) {
  T y;
  kernels::active<T>().elementwise.unary[static_cast<std::size_t>(kind)](&x, &y, 1);
  return y;
}
template <class T>
T power(T a, T b) {
  T y;
  kernels::active<T>().elementwise.binary[static_cast<std::size_t>(kernels::Binary::pow)](&a, 1, &b, 1, &y, 1);
  return y;
}

template <class T>
struct Special {
  Unary kind;
  T x, y;
};

template <class T>
void check_special_values() {
  constexpr T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN(), tiny = std::numeric_limits<T>::denorm_min();
  const Special<T> table[] = {{Unary::exp, -inf, 0},
                              {Unary::exp, inf, inf},
                              {Unary::exp, -T(0), 1},
                              {Unary::exp, T(1e30), inf},
                              {Unary::exp, T(-1e30), 0},
                              {Unary::expm1, -inf, -1},
                              {Unary::expm1, inf, inf},
                              {Unary::expm1, -T(0), -T(0)},
                              {Unary::expm1, tiny, tiny},
                              {Unary::log, 0, -inf},
                              {Unary::log, -T(0), -inf},
                              {Unary::log, -1, nan},
                              {Unary::log, inf, inf},
                              {Unary::log, -inf, nan},
                              {Unary::log, 1, 0},
                              {Unary::log1p, -1, -inf},
                              {Unary::log1p, -2, nan},
                              {Unary::log1p, inf, inf},
                              {Unary::log1p, -T(0), -T(0)},
                              {Unary::log1p, tiny, tiny},
                              {Unary::sin, -T(0), -T(0)},
                              {Unary::sin, inf, nan},
                              {Unary::sin, tiny, tiny},
                              {Unary::cos, -inf, nan},
                              {Unary::cos, 0, 1},
                              {Unary::tanh, inf, 1},
                              {Unary::tanh, -inf, -1},
                              {Unary::tanh, -T(0), -T(0)},
                              {Unary::tanh, 89, 1},
                              {Unary::tanh, T(-1e30), -1},
                              {Unary::sigmoid, inf, 1},
                              {Unary::sigmoid, -inf, 0},
                              {Unary::sigmoid, 0, T(0.5)},
                              {Unary::erf, inf, 1},
                              {Unary::erf, -inf, -1},
                              {Unary::erf, -T(0), -T(0)},
                              {Unary::erf, T(1e30), 1},
                              {Unary::abs, -T(0), 0},
                              {Unary::neg, 0, -T(0)},
                              {Unary::abs, -inf, inf},
                              {Unary::sign, -T(0), 0},
                              {Unary::sign, -inf, -1},
                              {Unary::sign, tiny, 1},
                              {Unary::relu, -tiny, 0},
                              {Unary::relu, inf, inf},
                              {Unary::sqrt, -1, nan},
                              {Unary::sqrt, inf, inf},
                              {Unary::rsqrt, 0, inf},
                              {Unary::rsqrt, inf, 0},
                              {Unary::reciprocal, -T(0), -inf},
                              {Unary::floor, T(-0.3), -1},
                              {Unary::floor, T(0.3), 0},
                              {Unary::ceil, T(-0.3), -T(0)},
                              {Unary::round, T(2.5), 2},
                              {Unary::round, T(-0.5), -T(0)},
                              {Unary::round, T(3.5), 4},
                              {Unary::floor, -inf, -inf},
                              {Unary::ceil, T(1e30), T(1e30)},
                              {Unary::rectified_quadratic, -3, 0},
                              {Unary::rectified_quadratic, 3, 9}};
  on_every_isa([&] {
    for (const auto& s : table) {
      const T y = value_of(s.kind, s.x);
      INFO(kernels::name_of(s.kind) << "(" << s.x << ") = " << y << ", not " << s.y);
      CHECK(same(y, s.y));
    }
    for (std::size_t kind = 0; kind < static_cast<std::size_t>(Unary::count); ++kind) {
      INFO(kernels::name_of(static_cast<Unary>(kind)) << " of NaN");
      CHECK(std::isnan(value_of(static_cast<Unary>(kind), nan)));
    }
  });
}

}  // namespace

TEST_CASE("functions_of_floats_keep_their_error_bounds") { check_bounds(floats()); }
TEST_CASE("functions_of_doubles_keep_their_error_bounds") { check_bounds(doubles()); }
TEST_CASE("functions_have_the_special_values_of_math_h") {
  check_special_values<float>();
  check_special_values<double>();
}

TEST_CASE("huge_angles_keep_all_their_digits") {
  // The double nearest to a multiple of pi/2 of all (Kahan), and both sides of the change of method.
  std::vector<double> x{6381956970095103.0 * 0x1p797, 8e5, 8.0000001e5, -8.0000001e5, 1e22, -1e300, std::numeric_limits<double>::max()};
  for (int i = 1; i < 4000; ++i) x.push_back(i * 1.5707963267948966);
  const std::vector<float> y{2e8f, -2.0000002e8f, 1e10f, 3e38f, 16367173.0f * 0x1p72f};
  on_every_isa([&] {
    for (const auto& f : {functions[4], functions[5]}) {
      CHECK(worst_error(f, x).ulps <= f.double_bound);
      CHECK(worst_error(f, y).ulps <= f.float_bound);
    }
  });
}

TEST_CASE("pow_keeps_its_error_bound") {
  Numbers numbers(9);
  on_every_isa([&] {
    double worst = 0, worst_float = 0;
    for (int i = 0; i < 100000; ++i) {
      const double u = numbers.next<double>(), v = numbers.next<double>();
      // Results of all magnitudes, then bases near 1 with large exponents, then everyday powers.
      const double a = i % 3 == 0 ? std::exp2(5 * u) : i % 3 == 1 ? 1 + 1e-3 * u : std::fabs(4 * u);
      const double b = i % 3 == 0 ? 370 * v / std::log(a) : i % 3 == 1 ? 3e5 * v : std::floor(8 * v) / 2;
      worst = std::max(worst, ulps<double>(power(a, b), std::pow(static_cast<long double>(a), static_cast<long double>(b))));
      const auto c = static_cast<float>(a), d = static_cast<float>(b / 8);
      worst_float = std::max(worst_float, ulps<float>(power(c, d), std::pow(static_cast<long double>(c), static_cast<long double>(d))));
    }
    CHECK(worst <= 1.0);
    CHECK(worst_float <= 0.6);
  });
}

TEST_CASE("pow_has_the_special_values_of_math_h") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const double values[] = {-inf, -3, -2.5, -2, -1, -0.5, -0.0, 0.0, 0.5, 1, 2, 2.5, 3, 1e30, -1e30, 16777215, -16777217.0, inf, nan};
  on_every_isa([&] {
    for (const double a : values)
      for (const double b : values) {
        INFO(a << " to the power " << b);
        CHECK(ulps<double>(power(a, b), std::pow(a, b)) <= 1.0);
        const auto c = static_cast<float>(a), d = static_cast<float>(b);
        CHECK(ulps<float>(power(c, d), std::pow(static_cast<double>(c), static_cast<double>(d))) <= 0.6);
      }
  });
}

TEST_CASE("exact_powers_are_exact") {
  on_every_isa([] {
    for (int base = -12; base <= 12; ++base)
      for (int exponent = 0; exponent <= 8; ++exponent) CHECK(power<double>(base, exponent) == std::pow(base, exponent));
  });
}
