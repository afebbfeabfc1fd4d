// Softmax and its kin on rows of every length, against long double, and their laws on rows of -inf, NaN and +inf.

#include "tests/catch.hpp"
#include "tests/kernels/spans.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

using Row = std::vector<long double>;

template <class T>
const kernels::SoftmaxKernels<T>& table() {
  return kernels::active<T>().softmax;
}
template <class T>
constexpr T inf = std::numeric_limits<T>::infinity();
template <class T>
constexpr T nan_of = std::numeric_limits<T>::quiet_NaN();

Row softmax_of(const Row& x, long double beta) {
  const long double top = *std::max_element(x.begin(), x.end());
  Row y(x.size());
  long double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += y[i] = std::exp(beta * (x[i] - top));
  for (auto& v : y) v /= sum;
  return y;
}
Row backward_of(const Row& y, const Row& gy, long double beta) {
  long double mean = 0;
  Row gx(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) mean += y[i] * gy[i];
  for (std::size_t i = 0; i < y.size(); ++i) gx[i] = beta * y[i] * (gy[i] - mean);
  return gx;
}
long double sum_of(const Row& x) {
  long double sum = 0;
  for (const auto v : x) sum += v;
  return sum;
}

// Rows of n elements around a span, their exact counterparts, and the largest error relative to a scale.
template <class T>
struct Problem {
  index_t rows, n;
  Guarded<T> x, g, y, z;

  Problem(index_t row_count, index_t length, index_t offset)
      : rows(row_count),
        n(length),
        x(Numbers(1).take<T>(rows * n), offset),
        g(Numbers(2).take<T>(rows * n), offset),
        y(rows * n, offset),
        z(rows * n, offset) {}
  Row row(Guarded<T>& of, index_t r) const { return Row(of.data() + r * n, of.data() + (r + 1) * n); }
};
template <class T>
double error(const T* got, const Row& wanted, long double scale) {
  double worst = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) worst = std::max(worst, static_cast<double>(std::fabs(static_cast<long double>(got[i]) - wanted[i]) / scale));
  return worst / static_cast<double>(std::numeric_limits<T>::epsilon());
}

// The logarithm of one weight a row, and its gradient, which reach no further than their rows. The largest error of either.
template <class T>
double check_one_place(Problem<T>& p, index_t offset) {
  std::vector<std::int64_t> target;
  for (index_t r = 0; r < p.rows; ++r) target.push_back(r % p.n);
  Guarded<T> y(p.rows, offset), sums(2 * p.rows, offset);
  table<T>().log_softmax_at(p.x.data(), p.rows, p.n, target.data(), y.data(), sums.data());
  table<T>().log_softmax_at_backward(p.x.data(), y.data(), p.g.data(), sums.data(), p.rows, p.n, target.data(), p.z.data());
  double worst = 0;
  for (index_t r = 0; r < p.rows; ++r) {
    Row gradient = softmax_of(p.row(p.x, r), 1);
    const auto at = static_cast<std::size_t>(r % p.n);
    worst = std::max(worst, error(y.data() + r, {std::log(gradient[at])}, 16));
    for (auto& v : gradient) v *= -static_cast<long double>(p.g[r]);
    gradient[at] += static_cast<long double>(p.g[r]);
    worst = std::max(worst, error(p.z.data() + r * p.n, gradient, 16));
  }
  CHECK((y.surroundings_untouched() && sums.surroundings_untouched() && p.z.surroundings_untouched()));
  return worst;
}

template <class T>
void check_values(index_t rows, index_t n, index_t offset) {
  const T beta = static_cast<T>(3.5);
  Problem<T> p(rows, n, offset);
  double worst[6] = {};
  const auto take = [&](int which, double e) { worst[which] = std::max(worst[which], e); };

  table<T>().softmax(p.x.data(), rows, n, beta, p.y.data());
  table<T>().softmax_backward(p.y.data(), p.g.data(), rows, n, beta, p.z.data());
  for (index_t r = 0; r < rows; ++r) {
    const Row exact = softmax_of(p.row(p.x, r), beta);
    for (index_t i = 0; i < n; ++i) take(0, error(p.y.data() + r * n + i, {exact[static_cast<std::size_t>(i)]}, exact[static_cast<std::size_t>(i)]));
    take(1, error(p.z.data() + r * n, backward_of(p.row(p.y, r), p.row(p.g, r), beta), 1));
  }
  CHECK((p.y.surroundings_untouched() && p.z.surroundings_untouched()));

  Guarded<T> log_sum(rows, offset);
  table<T>().log_softmax(p.x.data(), rows, n, beta, p.y.data());
  table<T>().log_softmax_backward(p.y.data(), p.g.data(), rows, n, beta, p.z.data());
  table<T>().logsumexp(p.x.data(), rows, n, log_sum.data());
  for (index_t r = 0; r < rows; ++r) {
    Row weights = softmax_of(p.row(p.x, r), beta), gradient = p.row(p.g, r);
    const long double total = sum_of(gradient);
    long double sum = 0;
    for (const auto v : p.row(p.x, r)) sum += std::exp(v);
    for (std::size_t i = 0; i < weights.size(); ++i) gradient[i] = beta * (gradient[i] - weights[i] * total);
    for (auto& v : weights) v = std::log(v);
    take(2, error(p.y.data() + r * n, weights, 16));
    take(3, error(p.z.data() + r * n, gradient, 16));
    take(4, error(log_sum.data() + r, {std::log(sum)}, 2));
  }
  CHECK((p.y.surroundings_untouched() && p.z.surroundings_untouched() && log_sum.surroundings_untouched()));

  take(3, check_one_place(p, offset));

  for (index_t i = 0; i < rows * n; ++i) p.x[i] += T{3};  // far from sums of 0
  CHECK(table<T>().normalize(p.x.data(), rows, n, p.y.data()) == 0);
  table<T>().normalize_backward(p.x.data(), p.y.data(), p.g.data(), rows, n, p.z.data());
  for (index_t r = 0; r < rows; ++r) {
    Row x = p.row(p.x, r), gradient = p.row(p.g, r);
    const long double sum = sum_of(x);
    long double mean = 0;
    for (std::size_t i = 0; i < x.size(); ++i) mean += (x[i] /= sum) * gradient[i];
    for (auto& v : gradient) v = (v - mean) / sum;
    take(5, error(p.y.data() + r * n, x, 5 / sum));
    take(5, error(p.z.data() + r * n, gradient, 4 / sum));
  }
  CHECK((p.y.surroundings_untouched() && p.z.surroundings_untouched()));

  // Relative for weights, whose error grows with the exponent (3.5 * 4 / 2 units); else in epsilons of the numbers that enter.
  const double bounds[6] = {24, 6, 4, 4, 4, 6};
  for (int i = 0; i < 6; ++i) {
    INFO("rows of " << n << ", function " << i);
    CHECK(worst[i] <= bounds[i]);
  }
}

// Every kernel on the same rows, one after another.
template <class T>
std::vector<T> all_results(const std::vector<T>& x, const std::vector<T>& g, index_t rows, index_t n) {
  std::vector<T> y(x.size()), z(x.size()), all;
  const auto take = [&](const std::vector<T>& v) { all.insert(all.end(), v.begin(), v.end()); };
  table<T>().softmax(x.data(), rows, n, 2, y.data());
  table<T>().softmax_backward(y.data(), g.data(), rows, n, 2, z.data());
  take(y), take(z);
  table<T>().log_softmax(x.data(), rows, n, 2, y.data());
  table<T>().log_softmax_backward(y.data(), g.data(), rows, n, 2, z.data());
  take(y), take(z);
  table<T>().hardmax(x.data(), rows, n, static_cast<T>(1e-6), y.data());
  take(y);
  table<T>().normalize(x.data(), rows, n, y.data());
  table<T>().normalize_backward(x.data(), y.data(), g.data(), rows, n, z.data());
  take(y), take(z);
  return all;
}

// Rows of 16 are handled across rows, rows of 17 along them: with a masked entry more the bits must be the same.
template <class T>
void check_both_ways() {
  const index_t rows = 21;
  const std::vector<T> x = Numbers(3).take<T>(rows * 16), g = Numbers(4).take<T>(rows * 16);
  std::vector<T> wide_x, wide_g, zero_x;
  for (index_t r = 0; r < rows; ++r)
    for (index_t i = 0; i < 17; ++i) {
      const auto at = static_cast<std::size_t>(r * 16 + i);
      wide_x.push_back(i < 16 ? x[at] : -inf<T>);
      zero_x.push_back(i < 16 ? x[at] : T{0});
      wide_g.push_back(i < 16 ? g[at] : T{0});
    }
  const auto compare = [&](const std::vector<T>& wide_input, std::size_t first, std::size_t last) {
    const std::vector<T> narrow = all_results(x, g, rows, 16), wide = all_results(wide_input, wide_g, rows, 17);
    bool right = true;
    for (std::size_t k = first; k < last; ++k)
      for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r)
        for (std::size_t i = 0; i < 16; ++i) right = right && same(narrow[(k * rows + r) * 16 + i], wide[(k * rows + r) * 17 + i]);
    return right;
  };
  CHECK(compare(wide_x, 0, 5));
  CHECK(compare(zero_x, 5, 7));  // normalize has no masks, but zeros
}

template <class T>
void check_laws(index_t n) {
  INFO("rows of " << n);
  const T low = -inf<T>;
  const auto last = static_cast<std::size_t>(n - 1);
  // An ordinary row, one of -inf, one with NaN at the end, one with +inf there, and an ordinary one with a masked first entry.
  std::vector<std::vector<T>> rows(5, std::vector<T>(static_cast<std::size_t>(n), T{1}));
  std::fill(rows[1].begin(), rows[1].end(), low);
  rows[2][last] = nan_of<T>;
  rows[3][last] = inf<T>;
  rows[4][0] = low;
  std::vector<T> x, y(static_cast<std::size_t>(5 * n)), z = y;
  for (const auto& row : rows) x.insert(x.end(), row.begin(), row.end());
  // Gradients that must not be looked at where the weight is 0.
  std::vector<T> g(x.size(), T{2});
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] == low) g[i] = i % 2 == 0 ? inf<T> : nan_of<T>;
  const auto at = [n](const std::vector<T>& v, index_t row, index_t i) { return v[static_cast<std::size_t>(row * n + i)]; };
  const auto row_is = [&](const std::vector<T>& v, index_t row, T value) {
    for (index_t i = 0; i < n; ++i)
      if (!same(at(v, row, i), value)) return false;
    return true;
  };

  table<T>().softmax(x.data(), 5, n, 1, y.data());
  CHECK(at(y, 0, 0) == Approx(1.0 / static_cast<double>(n)));
  CHECK((row_is(y, 1, 0) && row_is(y, 2, nan_of<T>) && row_is(y, 3, nan_of<T>)));
  CHECK((n == 1 || (same(at(y, 4, 0), T{0}) && at(y, 4, n - 1) == Approx(1.0 / static_cast<double>(n - 1)))));
  table<T>().softmax_backward(y.data(), g.data(), 5, n, 1, z.data());
  CHECK((row_is(z, 1, 0) && row_is(z, 2, nan_of<T>)));
  for (index_t i = 0; i < n; ++i) CHECK(std::fabs(at(z, 4, i)) < 1e-5);

  table<T>().log_softmax(x.data(), 5, n, 1, y.data());
  CHECK((row_is(y, 1, low) && row_is(y, 2, nan_of<T>) && row_is(y, 3, nan_of<T>) && same(at(y, 4, 0), n == 1 ? low : low)));
  table<T>().log_softmax_backward(y.data(), g.data(), 5, n, 1, z.data());
  CHECK((row_is(z, 1, 0) && row_is(z, 2, nan_of<T>) && same(at(z, 4, 0), T{0}) && std::isfinite(at(z, 4, n - 1))));

  T sums[5];
  table<T>().logsumexp(x.data(), 5, n, sums);
  CHECK(sums[0] == Approx(1 + std::log(static_cast<double>(n))));
  CHECK((same(sums[1], low) && std::isnan(sums[2]) && same(sums[3], inf<T>)));

  table<T>().hardmax(x.data(), 5, n, static_cast<T>(1e-6), y.data());
  CHECK(at(y, 0, 0) == Approx(1.0 / static_cast<double>(n)));
  CHECK((row_is(y, 1, 0) && row_is(y, 2, nan_of<T>) && at(y, 3, n - 1) == 1 && (n == 1 || at(y, 3, 0) == 0)));

  std::vector<T> weights(x.size(), T{0});
  weights[static_cast<std::size_t>(n)] = T{2};
  CHECK(table<T>().normalize(weights.data(), 5, n, y.data()) == 4);
  CHECK((row_is(y, 0, 0) && at(y, 1, 0) == 1 && row_is(y, 4, 0)));
  table<T>().normalize_backward(weights.data(), y.data(), g.data(), 5, n, z.data());
  CHECK((row_is(z, 0, 0) && row_is(z, 4, 0)));
}

}  // namespace

TEMPLATE_TEST_CASE("rows_of_every_length_are_near_their_exact_values", "", float, double) {
  on_every_isa([] {
    for (index_t n = 1; n <= 67; ++n) check_values<TestType>(1 + n % 20, n, n % 16);
    for (const index_t n : {255, 256, 257, 1000, 5000}) check_values<TestType>(2, n, 3);
  });
}
TEMPLATE_TEST_CASE("rows_across_and_along_have_the_same_bits", "", float, double) { on_every_isa(check_both_ways<TestType>); }
TEMPLATE_TEST_CASE("rows_of_minus_infinity_nan_and_infinity_obey_the_laws", "", float, double) {
  on_every_isa([] {
    for (const index_t n : {1, 2, 5, 16, 17, 33, 300}) check_laws<TestType>(n);
  });
}

TEMPLATE_TEST_CASE("a_row_does_not_depend_on_its_neighbours", "", float, double) {
  on_every_isa([] {
    for (const index_t n : {3, 16, 40}) {
      const std::vector<TestType> x = Numbers(5).take<TestType>(11 * n), g = Numbers(6).take<TestType>(11 * n);
      const auto together = all_results(x, g, 11, n);
      bool right = true;
      for (index_t r = 0; r < 11; ++r) {
        const auto alone = all_results(std::vector<TestType>(x.begin() + r * n, x.begin() + (r + 1) * n),
                                       std::vector<TestType>(g.begin() + r * n, g.begin() + (r + 1) * n), 1, n);
        for (index_t k = 0; k < 7; ++k)
          for (index_t i = 0; i < n; ++i)
            right = right && same(alone[static_cast<std::size_t>(k * n + i)], together[static_cast<std::size_t>((k * 11 + r) * n + i)]);
      }
      CHECK(right);
    }
  });
}

TEMPLATE_TEST_CASE("softmax_may_overwrite_its_input", "", float, double) {
  on_every_isa([] {
    for (const index_t n : {7, 16, 50}) {
      std::vector<TestType> x = Numbers(7).take<TestType>(9 * n), y(x.size());
      table<TestType>().softmax(x.data(), 9, n, 1, y.data());
      table<TestType>().softmax(x.data(), 9, n, 1, x.data());
      CHECK(x == y);
    }
  });
}

TEMPLATE_TEST_CASE("weights_below_the_smallest_normal_number_are_zero", "", float, double) {
  on_every_isa([] {
    const TestType smallest = std::numeric_limits<TestType>::min();
    for (const index_t n : {12, 2000}) {
      std::vector<TestType> x(static_cast<std::size_t>(n)), y(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<TestType>(std::log(smallest) * static_cast<double>(i) * 1.1 / static_cast<double>(n - 1));
      table<TestType>().softmax(x.data(), 1, n, 1, y.data());
      for (const TestType v : y) CHECK((v == 0 || v >= smallest));
      CHECK((y.front() > 0 && y.back() == 0));
    }
  });
}

TEMPLATE_TEST_CASE("hardmax_shares_among_ties_within_its_tolerance", "", float, double) {
  on_every_isa([] {
    for (const index_t n : {6, 40}) {
      std::vector<TestType> x(static_cast<std::size_t>(n), TestType{-5}), y(x.size());
      x[1] = 100;
      x[4] = 100 - TestType(0.5) * TestType(1e-5) * 101;  // a tie
      x[5] = 100 - TestType(1.5) * TestType(1e-5) * 101;  // not one
      table<TestType>().hardmax(x.data(), 1, n, TestType(1e-5), y.data());
      CHECK((y[1] == 0.5 && y[4] == 0.5 && y[5] == 0 && y[0] == 0));
    }
  });
}

TEST_CASE("softmax_results_have_the_same_bits_on_avx2_and_avx512") {
  if (!kernels::available(kernels::Isa::avx512)) {
    WARN("skipped: this machine has no AVX-512");
    return;
  }
  const auto results = [](auto tag, kernels::Isa isa, index_t n) {
    const UseIsa use(isa);
    using T = decltype(tag);
    return all_results(Numbers(8).take<T>(23 * n), Numbers(9).take<T>(23 * n), 23, n);
  };
  for (const index_t n : {5, 16, 100, 3000}) {
    CHECK(results(float{}, kernels::Isa::avx512, n) == results(float{}, kernels::Isa::avx2, n));
    CHECK(results(double{}, kernels::Isa::avx512, n) == results(double{}, kernels::Isa::avx2, n));
  }
}
