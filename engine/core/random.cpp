#include "engine/core/random.hpp"

#include <bit>
#include <cmath>
#include <numeric>

#include "engine/core/parallel.hpp"

namespace gradus {
namespace {

constexpr std::uint32_t multiplier_0 = 0xD2511F53, multiplier_1 = 0xCD9E8D57, weyl_0 = 0x9E3779B9, weyl_1 = 0xBB67AE85;
constexpr index_t fill_grain = 1 << 12;

__extension__ using Wide = unsigned __int128;

// A mixing of 64 bits (SplitMix64's), for keys of derived streams.
std::uint64_t mix(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The index and the stream fill the counter, the seed is the key; `draw` numbers further blocks of one index.
std::array<std::uint32_t, 4> block(std::uint64_t seed, std::uint64_t stream, std::uint64_t index, std::uint32_t draw) noexcept {
  const std::uint64_t lane = mix(stream) ^ (static_cast<std::uint64_t>(draw) << 32);
  return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), static_cast<std::uint32_t>(lane), static_cast<std::uint32_t>(lane >> 32)},
                    {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

std::uint64_t join(std::uint32_t low, std::uint32_t high) noexcept { return low | (static_cast<std::uint64_t>(high) << 32); }

double horner(double x, const std::array<double, 8>& c) noexcept {
  double y = c[7];
  for (int i = 6; i >= 0; --i) y = y * x + c[static_cast<std::size_t>(i)];
  return y;
}

// Wichura (1988), algorithm AS 241, PPND16: the normal quantile to about 1 part in 10^16.
constexpr std::array<double, 8> near_top{3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                         4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr std::array<double, 8> near_bottom{1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
                                            2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3};
constexpr std::array<double, 8> middle_top{1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
                                           1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr std::array<double, 8> middle_bottom{1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
                                              1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9};
constexpr std::array<double, 8> far_top{6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
                                        2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr std::array<double, 8> far_bottom{1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
                                           7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15};

double normal_quantile(double p) noexcept {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * horner(r, near_top) / horner(r, near_bottom);
  }
  const double r = std::sqrt(-portable_log(q < 0 ? p : 1 - p));
  const double z = r <= 5 ? horner(r - 1.6, middle_top) / horner(r - 1.6, middle_bottom) : horner(r - 5, far_top) / horner(r - 5, far_bottom);
  return q < 0 ? -z : z;
}

template <class T, class F>
void fill(std::span<T> out, const F& value) {
  parallel_for(static_cast<index_t>(out.size()), fill_grain, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) out[static_cast<std::size_t>(i)] = value(static_cast<std::uint64_t>(i));
  });
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> c, std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = static_cast<std::uint64_t>(multiplier_0) * c[0], p1 = static_cast<std::uint64_t>(multiplier_1) * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(p1), static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ key[1],
         static_cast<std::uint32_t>(p0)};
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return c;
}

Random Random::fork(std::uint64_t id) const noexcept { return Random(seed_, mix(stream_ ^ mix(id))); }

std::uint64_t Random::bits(std::uint64_t index) const noexcept {
  const auto b = block(seed_, stream_, index, 0);
  return join(b[0], b[1]);
}

// The 2^52 midpoints (i + 1/2) / 2^52: all exact, neither 0 nor 1 among them.
double Random::uniform(std::uint64_t index) const noexcept { return (static_cast<double>(bits(index) >> 12) + 0.5) * 0x1p-52; }
float Random::uniform_f32(std::uint64_t index) const noexcept { return (static_cast<float>(bits(index) >> 41) + 0.5f) * 0x1p-23f; }
double Random::normal(std::uint64_t index) const noexcept { return normal_quantile(uniform(index)); }

index_t Random::integer(std::uint64_t index, index_t n) const {
  if (n < 1) throw ValueError("random", cat("an integer below ", n), "give at least 1");
  // Lemire (2019): the high word of a product, rejecting the few low words that would favour some results.
  const auto range = static_cast<std::uint64_t>(n);
  const std::uint64_t threshold = (0 - range) % range;
  for (std::uint32_t draw = 0;; ++draw) {
    const auto b = block(seed_, stream_, index, draw);
    const Wide product = static_cast<Wide>(join(b[0], b[1])) * range;
    if (static_cast<std::uint64_t>(product) >= threshold) return static_cast<index_t>(product >> 64);
  }
}

index_t Random::categorical(std::uint64_t index, std::span<const double> weights) const {
  double total = 0;
  for (const double w : weights) {
    if (!(w >= 0) || std::isinf(w)) throw ValueError("random", cat("a weight of ", w), "weights are finite and >= 0");
    total += w;
  }
  if (!(total > 0) || std::isinf(total)) throw ValueError("random", cat("the weights sum to ", total), "at least one must be > 0, and their sum finite");
  double left = uniform(index) * total;
  index_t last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    last = static_cast<index_t>(i);
    left -= weights[i];
    if (left < 0) break;
  }
  return last;
}

void Random::fill_uniform(std::span<float> out, std::uint64_t first) const {
  fill(out, [&](std::uint64_t i) { return uniform_f32(first + i); });
}
void Random::fill_uniform(std::span<double> out, std::uint64_t first) const {
  fill(out, [&](std::uint64_t i) { return uniform(first + i); });
}
void Random::fill_normal(std::span<float> out, std::uint64_t first) const {
  fill(out, [&](std::uint64_t i) { return static_cast<float>(normal(first + i)); });
}
void Random::fill_normal(std::span<double> out, std::uint64_t first) const {
  fill(out, [&](std::uint64_t i) { return normal(first + i); });
}

void Random::fill_permutation(std::span<index_t> out, std::uint64_t first) const {
  std::iota(out.begin(), out.end(), index_t{0});
  for (std::size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[static_cast<std::size_t>(integer(first + i - 1, static_cast<index_t>(i)))]);
}

double portable_log(double x) noexcept {
  // fdlibm: x = 2^k (1 + f), ln(1 + f) = f - s (f - R) with s = f / (2 + f).
  constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  constexpr std::array<double, 7> lg{6.666666666666735130e-01, 3.999999999940941908e-01, 2.857142874366239149e-01, 2.222219843214978396e-01,
                                     1.818357216161805012e-01, 1.531383769920937332e-01, 1.479819860511658591e-01};
  double k = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    k = -54;
  }
  auto bits = std::bit_cast<std::uint64_t>(x);
  // Adding (1 - sqrt(1/2)) to the mantissa puts 1 + f between sqrt(1/2) and sqrt(2).
  constexpr std::uint64_t one = 0x3FF0000000000000, root_half = 0x3FE6A09E667F3BCD;
  bits += one - root_half;
  k += static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 0x3FF);
  bits = (bits & 0x000FFFFFFFFFFFFF) + root_half;
  const double f = std::bit_cast<double>(bits) - 1.0;
  const double s = f / (2.0 + f), z = s * s, w = z * z;
  const double even = w * (lg[1] + w * (lg[3] + w * lg[5])), odd = z * (lg[0] + w * (lg[2] + w * (lg[4] + w * lg[6])));
  const double half_square = 0.5 * f * f, r = even + odd;
  return k * ln2_high - ((half_square - (s * (half_square + r) + k * ln2_low)) - f);
}

}  // namespace gradus
