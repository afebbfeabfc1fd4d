#include "engine/core/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <numeric>
#include <vector>

#include "engine/core/error.hpp"
#include "tests/catch.hpp"
#include "tests/use_threads.hpp"

using namespace gradus;
using gradus::testing::UseThreads;

namespace {

using Words = std::array<std::uint32_t, 4>;

template <class T>
std::vector<T> uniforms(const Random& random, std::size_t n, std::uint64_t first = 0) {
  std::vector<T> out(n);
  random.fill_uniform(std::span<T>(out), first);
  return out;
}
template <class T>
std::vector<T> normals(const Random& random, std::size_t n, std::uint64_t first = 0) {
  std::vector<T> out(n);
  random.fill_normal(std::span<T>(out), first);
  return out;
}
std::vector<index_t> permutation(const Random& random, std::size_t n, std::uint64_t first = 0) {
  std::vector<index_t> out(n);
  random.fill_permutation(out, first);
  return out;
}

// FNV-1a over the bytes.
template <class T>
std::uint64_t hash(const std::vector<T>& values) {
  std::uint64_t h = 0xCBF29CE484222325;
  for (const T& value : values) {
    std::array<unsigned char, sizeof(T)> bytes{};
    std::memcpy(bytes.data(), &value, sizeof(T));
    for (const unsigned char byte : bytes) h = (h ^ byte) * 0x100000001B3;
  }
  return h;
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// The largest distance between the empirical distribution and the exact one, times sqrt(n): above 1.95 once in a thousand samples.
template <class T, class Cdf>
double kolmogorov_smirnov(std::vector<T> sample, const Cdf& cdf) {
  std::sort(sample.begin(), sample.end());
  const auto n = static_cast<double>(sample.size());
  double distance = 0;
  for (std::size_t i = 0; i < sample.size(); ++i) {
    const double p = cdf(static_cast<double>(sample[i])), rank = static_cast<double>(i);
    distance = std::max({distance, p - rank / n, (rank + 1) / n - p});
  }
  return distance * std::sqrt(n);
}

double chi_squared(const std::vector<int>& counts, const std::vector<double>& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) sum += std::pow(counts[i] - expected[i], 2) / expected[i];
  return sum;
}
double chi_squared(const std::vector<int>& counts) {
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  return chi_squared(counts, std::vector<double>(counts.size(), total / static_cast<double>(counts.size())));
}

// ---- which index of which stream has given bits: Philox and the mixing of streams are bijections, here run backwards ----

std::uint32_t inverse(std::uint32_t odd) {
  std::uint32_t x = odd;
  for (int i = 0; i < 5; ++i) x *= 2 - odd * x;
  return x;
}

Words philox_backwards(Words c, std::array<std::uint32_t, 2> key) {
  constexpr std::uint32_t m0 = 0xD2511F53, m1 = 0xCD9E8D57;
  for (std::uint32_t round = 10; round-- > 0;) {
    const std::uint32_t k0 = key[0] + round * 0x9E3779B9, k1 = key[1] + round * 0xBB67AE85;
    const std::uint32_t c0 = c[3] * inverse(m0), c2 = c[1] * inverse(m1);
    const auto high = [](std::uint32_t a, std::uint32_t b) { return static_cast<std::uint32_t>((std::uint64_t{a} * b) >> 32); };
    c = {c0, c[0] ^ high(m1, c2) ^ k0, c2, c[2] ^ high(m0, c0) ^ k1};
  }
  return c;
}

std::uint64_t unmix(std::uint64_t x) {
  const auto unshift = [](std::uint64_t y, int by) {
    std::uint64_t z = y;
    for (int i = by; i < 64; i += by) z = y ^ (z >> by);
    return z;
  };
  const auto inverse64 = [](std::uint64_t odd) {
    std::uint64_t y = odd;
    for (int i = 0; i < 6; ++i) y *= 2 - odd * y;
    return y;
  };
  x = unshift(x, 31) * inverse64(0x94D049BB133111EBu);
  x = unshift(x, 27) * inverse64(0xBF58476D1CE4E5B9u);
  return unshift(x, 30) - 0x9E3779B97F4A7C15u;
}

struct Draw {
  Random random;
  std::uint64_t index;
};

// A stream and an index with exactly these bits.
Draw draw_with(std::uint64_t bits) {
  for (std::uint32_t other = 0;; ++other) {
    const Words c = philox_backwards({static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32), other, 7}, {5, 0});
    const std::uint64_t block = c[0] | std::uint64_t{c[1]} << 32, lane = c[2] | std::uint64_t{c[3]} << 32;
    if (block >> 63 != 0) continue;  // its index would not fit
    const Draw draw{Random(5, unmix(lane)), 2 * block};
    REQUIRE(draw.random.bits(draw.index) == bits);
    return draw;
  }
}
constexpr std::uint64_t all_ones = ~std::uint64_t{0};

}  // namespace

TEST_CASE("philox gives the published blocks", "[random]") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t f = 0xffffffff;
  CHECK(philox4x32({f, f, f, f}, {f, f}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) == Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("every machine draws the same numbers", "[random]") {
  const Random random(2024, 3);
  CHECK(hash(uniforms<float>(random, 100000)) == 0x0c07e1e691660796);
  CHECK(hash(uniforms<double>(random, 100000)) == 0xdda9c6fee1137bc1);
  CHECK(hash(normals<float>(random, 100000)) == 0xcd41eb6b5be60360);
  CHECK(hash(normals<double>(random, 100000)) == 0xa5a5ca3f358346c2);
  CHECK(hash(permutation(random, 1000)) == 0x6011d5cb2e887e49);
  CHECK(hash(uniforms<double>(random.fork(1), 1000)) == 0x1243f0dc9505589c);
  const std::vector<double> weights{0.5, 0.25, 2, 1};
  std::vector<index_t> integers, categories;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    integers.push_back(random.integer(i, (index_t{3} << 61) - 1));
    categories.push_back(random.categorical(i, weights));
  }
  CHECK(hash(integers) == 0x8f773ea3cf461f15);
  CHECK(hash(categories) == 0xeabf0798439b7265);
}

TEST_CASE("fills equal single draws, on any number of threads, from any first index", "[random][parallel]") {
  const Random random(9, 1);
  for (const int threads : {1, 2, 4}) {
    const UseThreads use(threads);
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{1} << 40, all_ones - 9000})
      for (const std::size_t n : {0U, 1U, 2U, 3U, 5U, 8U, 20001U}) {
        const auto u32 = uniforms<float>(random, n, first), n32 = normals<float>(random, n, first);
        const auto u64 = uniforms<double>(random, n, first), n64 = normals<double>(random, n, first);
        std::size_t different = 0;
        for (std::size_t i = 0; i < n; ++i) {
          const std::uint64_t index = first + i;  // indices wrap
          different += u32[i] != random.uniform_f32(index) || u64[i] != random.uniform(index) || n64[i] != random.normal(index) ||
                       n32[i] != static_cast<float>(random.normal(index));
        }
        CAPTURE(threads, first, n);
        CHECK(different == 0);
      }
  }
}

TEST_CASE("the bits nearest the ends give uniforms inside the open interval and finite normals", "[random][edge]") {
  const Draw low = draw_with(0), high = draw_with(all_ones);
  CHECK(low.random.uniform(low.index) == 0x1p-53);
  CHECK(high.random.uniform(high.index) == 1 - 0x1p-53);
  CHECK(low.random.uniform_f32(low.index) == 0x1p-24f);
  CHECK(high.random.uniform_f32(high.index) == 1 - 0x1p-24f);
  CHECK(high.random.uniform_f32(high.index) < 1.0f);
  CHECK(low.random.normal(low.index) == Approx(-8.209536151601387).epsilon(1e-15));
  CHECK(high.random.normal(high.index) == -low.random.normal(low.index));
  const std::vector<double> weights{0, 1, 1, 0};
  CHECK(low.random.categorical(low.index, weights) == 1);
  CHECK(high.random.categorical(high.index, weights) == 2);
  CHECK(low.random.integer(low.index, 8) == 0);
  CHECK(high.random.integer(high.index, 1000) == 999);
}

TEST_CASE("ten million draws stay inside the open interval and their logarithms are finite", "[random][edge]") {
  const Random random(1);
  bool inside = true, finite = true;
  std::vector<float> u32(1 << 16), n32(1 << 16);
  for (std::uint64_t first = 0; first < 10'000'000; first += u32.size()) {
    random.fill_uniform(std::span<float>(u32), first);
    random.fill_normal(std::span<float>(n32), first);
    for (const float u : u32) {
      inside = inside && u > 0 && u < 1;
      const double gumbel = -portable_log(-portable_log(static_cast<double>(u)));
      finite = finite && std::isfinite(gumbel);
    }
    for (const float x : n32) finite = finite && std::isfinite(x);
  }
  CHECK(inside);
  CHECK(finite);
}

TEST_CASE("uniforms follow the uniform distribution", "[random]") {
  const auto f32 = uniforms<float>(Random(11), 1'000'000);
  const auto f64 = uniforms<double>(Random(12), 1'000'000);
  const auto identity = [](double x) { return x; };
  CHECK(kolmogorov_smirnov(f32, identity) < 1.95);
  CHECK(kolmogorov_smirnov(f64, identity) < 1.95);
  CHECK(std::accumulate(f64.begin(), f64.end(), 0.0) / 1e6 == Approx(0.5).margin(4 * std::sqrt(1.0 / 12 / 1e6)));
}

TEST_CASE("normals follow the normal distribution", "[random]") {
  const auto sample = normals<double>(Random(13), 1'000'000);
  CHECK(kolmogorov_smirnov(sample, normal_cdf) < 1.95);
  CHECK(kolmogorov_smirnov(normals<float>(Random(14), 1'000'000), normal_cdf) < 1.95);
  std::array<double, 5> moments{};
  for (const double x : sample)
    for (int k = 1; k <= 4; ++k) moments[static_cast<std::size_t>(k)] += std::pow(x, k) / 1e6;
  // Four standard errors of each: the variance of x^k is E x^2k - (E x^k)^2.
  CHECK(moments[1] == Approx(0).margin(4e-3 * std::sqrt(1.0)));
  CHECK(moments[2] == Approx(1).margin(4e-3 * std::sqrt(2.0)));
  CHECK(moments[3] == Approx(0).margin(4e-3 * std::sqrt(15.0)));
  CHECK(moments[4] == Approx(3).margin(4e-3 * std::sqrt(96.0)));
}

TEST_CASE("a normal is the quantile of its uniform", "[random]") {
  const Random random(15);
  const auto check = [](double x, double p) {
    const long double tail = std::min(p, 1 - p), size = std::fabs(x);
    const long double density = std::exp(-size * size / 2) / std::sqrt(2 * std::numbers::pi_v<long double>);
    const long double miss = (0.5L * std::erfc(size / std::numbers::sqrt2_v<long double>) - tail) / density;
    return std::fabs(static_cast<double>(miss)) / std::max(0.1, static_cast<double>(size));
  };
  double worst = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) worst = std::max(worst, check(random.normal(i), random.uniform(i)));
  for (int bit = 0; bit < 64; ++bit)  // the tails, in powers of two
    for (const std::uint64_t bits : {std::uint64_t{1} << bit, ~(std::uint64_t{1} << bit), all_ones >> bit, ~(all_ones >> bit)}) {
      const Draw draw = draw_with(bits);
      worst = std::max(worst, check(draw.random.normal(draw.index), draw.random.uniform(draw.index)));
    }
  CHECK(worst < 2e-15);
}

TEST_CASE("the portable logarithm is within one ulp everywhere", "[random]") {
  const Random random(16);
  double worst = 0;
  const auto check = [&](double x) {
    const long double exact = std::log(static_cast<long double>(x));
    const double rounded = std::fabs(static_cast<double>(exact));
    const double ulp = std::nextafter(rounded, std::numeric_limits<double>::infinity()) - rounded;
    worst = std::max(worst, static_cast<double>(std::fabs(static_cast<long double>(portable_log(x)) - exact)) / ulp);
  };
  for (std::uint64_t i = 0; i < 100000; ++i) {
    check(random.uniform(i));
    check(1 + (random.uniform(i) - 0.5) * 1e-3);
    check(std::ldexp(1 + random.uniform(i), static_cast<int>(random.integer(i, 2046)) - 1022));
  }
  for (const double x : {std::numeric_limits<double>::denorm_min(), 0x1p-1074 * 12345, std::numeric_limits<double>::min(), std::numeric_limits<double>::max()})
    check(x);
  CHECK(worst < 1);
  CHECK(portable_log(1) == 0);
}

TEST_CASE("integers are without bias, however the range divides 2^64", "[random]") {
  const Random random(17);
  for (const index_t n : {1, 2, 3, 10, 1000}) {
    std::vector<int> counts(static_cast<std::size_t>(n));
    for (std::uint64_t i = 0; i < 100000; ++i) ++counts[static_cast<std::size_t>(random.integer(i, n))];
    const auto freedom = static_cast<double>(n - 1);
    CHECK(chi_squared(counts) <= freedom + 4 * std::sqrt(2 * freedom));
  }
  // Without rejection two thirds of these would come with probability 3/8 and the last third with 2/8.
  std::vector<int> thirds(3);
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const index_t value = random.integer(i, index_t{3} << 61);
    REQUIRE((value >= 0 && value < index_t{3} << 61));
    ++thirds[static_cast<std::size_t>(value % 3)];
  }
  CHECK(chi_squared(thirds) < 13.8);
}

TEST_CASE("an integer below less than one is an error", "[random]") {
  CHECK_THROWS_WITH(Random(1).integer(0, 0), "[random] an integer below 0. Hint: give at least 1.");
  CHECK_THROWS_AS(Random(1).integer(0, -5), ValueError);
}

TEST_CASE("a permutation holds every index once and all orders are equally frequent", "[random]") {
  for (const std::size_t n : {0U, 1U, 2U, 5U, 1000U}) {
    auto values = permutation(Random(18), n);
    std::sort(values.begin(), values.end());
    for (std::size_t i = 0; i < n; ++i) REQUIRE(values[i] == static_cast<index_t>(i));
  }
  std::vector<int> orders(256);
  for (std::uint64_t i = 0; i < 24000; ++i) {
    const auto p = permutation(Random(19), 4, 4 * i);
    ++orders[static_cast<std::size_t>(((p[0] * 4 + p[1]) * 4 + p[2]) * 4 + p[3])];
  }
  std::erase(orders, 0);
  REQUIRE(orders.size() == 24);
  CHECK(chi_squared(orders) < 49.7);  // 23 degrees of freedom, one in a thousand
}

TEST_CASE("categories come as often as their weights say", "[random]") {
  const std::vector<double> weights{1, 0, 3, 0.5, 1e-300, 5.5};
  std::vector<int> counts(weights.size());
  for (std::uint64_t i = 0; i < 100000; ++i) ++counts[static_cast<std::size_t>(Random(20).categorical(i, weights))];
  CHECK(counts[1] == 0);
  CHECK(counts[4] == 0);
  CHECK(chi_squared({counts[0], counts[2], counts[3], counts[5]}, {1e4, 3e4, 5e3, 5.5e4}) < 16.3);
  CHECK(Random(1).categorical(0, std::array<double, 3>{0, 0, 1e-320}) == 2);
}

TEST_CASE("weights that are no weights are errors", "[random]") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const auto draw = [](const std::vector<double>& weights) { return Random(1).categorical(0, weights); };
  CHECK_THROWS_WITH(draw({1, -0.5}), "[random] a weight of -0.5. Hint: weights are finite and >= 0.");
  CHECK_THROWS_AS(draw({1, nan}), ValueError);
  CHECK_THROWS_AS(draw({1, inf}), ValueError);
  CHECK_THROWS_WITH(draw({0, 0}), "[random] the weights sum to 0. Hint: at least one must be > 0, and their sum finite.");
  CHECK_THROWS_AS(draw({}), ValueError);
  CHECK_THROWS_AS(draw({1e308, 1e308}), ValueError);
}

TEST_CASE("seeds, streams and forks are independent of each other", "[random]") {
  const Random base(21, 4);
  const std::vector<Random> all{base,         Random(22, 4), Random(21, 5),        Random(21 + (std::uint64_t{1} << 32), 4),
                                base.fork(0), base.fork(1),  base.fork(0).fork(1), base.fork(1).fork(0)};
  std::vector<std::vector<double>> samples;
  for (const Random& random : all) samples.push_back(uniforms<double>(random, 100000));
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = a; b < all.size(); ++b)
      for (const std::size_t lag : {0U, 1U, 2U}) {
        if (a == b && lag == 0) continue;
        double correlation = 0;
        for (std::size_t i = lag; i < samples[a].size(); ++i) correlation += (samples[a][i] - 0.5) * (samples[b][i - lag] - 0.5) * 12 / 1e5;
        CAPTURE(a, b, lag);
        CHECK(std::fabs(correlation) < 4.5 / std::sqrt(1e5));
      }
  }
  CHECK(base.fork(1).seed() == base.seed());
  CHECK(base.fork(1).bits(0) == Random(21, 4).fork(1).bits(0));
}
