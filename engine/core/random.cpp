#include "engine/core/random.hpp"

#include <bit>
#include <cmath>
#include <numeric>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

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

// Two 32-bit words in the low halves of 64-bit lanes; what the high halves hold does not matter.
using Pair = std::uint64_t __attribute__((vector_size(16)));
constexpr std::uint64_t low_half = 0xFFFFFFFF;

std::uint64_t multiply_low(std::uint64_t a, std::uint32_t b) noexcept { return (a & low_half) * b; }
Pair multiply_low(Pair a, std::uint32_t b) noexcept {
#if defined(__SSE2__)
  return reinterpret_cast<Pair>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), _mm_set1_epi64x(b)));
#else
  return (a & low_half) * b;
#endif
}

// The ten rounds on one counter or on a pair of counters.
template <class Words>
void philox_rounds(Words (&c)[4], std::uint32_t key_0, std::uint32_t key_1) noexcept {
  for (int round = 0; round < 10; ++round, key_0 += weyl_0, key_1 += weyl_1) {
    const Words p0 = multiply_low(c[0], multiplier_0), p1 = multiply_low(c[2], multiplier_1);
    c[0] = (p1 >> 32) ^ c[1] ^ std::uint64_t{key_0};
    c[2] = (p0 >> 32) ^ c[3] ^ std::uint64_t{key_1};
    c[1] = p1;
    c[3] = p0;
  }
}

// The third and fourth word of a counter: the stream, and `draw`, which numbers further sets of values for the same indices.
std::uint64_t lane_of(std::uint64_t stream, std::uint32_t draw) noexcept { return mix(stream) ^ (std::uint64_t{draw} << 32); }

// Values 2 * block and 2 * block + 1 of a stream: the block and the lane are the counter, the seed is the key.
std::array<std::uint64_t, 2> values_of(std::uint64_t seed, std::uint64_t lane, std::uint64_t block) noexcept {
  std::uint64_t c[4] = {block, block >> 32, lane, lane >> 32};
  philox_rounds(c, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  return {(c[0] & low_half) | c[1] << 32, (c[2] & low_half) | c[3] << 32};
}

// The same for two blocks at once, four values.
std::array<std::uint64_t, 4> values_of_two(std::uint64_t seed, std::uint64_t lane, std::uint64_t block) noexcept {
  const Pair blocks = {block, block + 1}, lanes = {lane, lane};
  Pair c[4] = {blocks, blocks >> 32, lanes, lanes >> 32};
  philox_rounds(c, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  const Pair even = (c[0] & low_half) | c[1] << 32, odd = (c[2] & low_half) | c[3] << 32;
  return {even[0], odd[0], even[1], odd[1]};
}

// The 2^52 midpoints (i + 1/2) / 2^52, and the 2^23 in single precision: all exact, neither 0 nor 1 among them.
double to_uniform(std::uint64_t bits) noexcept { return (static_cast<double>(static_cast<std::int64_t>(bits >> 12)) + 0.5) * 0x1p-52; }
float to_uniform_f32(std::uint64_t bits) noexcept { return (static_cast<float>(static_cast<std::int32_t>(bits >> 41)) + 0.5f) * 0x1p-23f; }

double horner(double x, const std::array<double, 8>& c) noexcept {
  double y = c[7];
  for (int i = 6; i >= 0; --i) y = y * x + c[static_cast<std::size_t>(i)];
  return y;
}

// Wichura (1988), algorithm AS 241, PPND16: the normal quantile to about 1 part in 10^16.
constexpr std::array<double, 8> near_top{3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                         4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr std::array<double, 8> near_bottom{1.0,
                                            4.2313330701600911252e+1,
                                            6.8718700749205790830e+2,
                                            5.3941960214247511077e+3,
                                            2.1213794301586595867e+4,
                                            3.9307895800092710610e+4,
                                            2.8729085735721942674e+4,
                                            5.2264952788528545610e+3};
constexpr std::array<double, 8> middle_top{1.42343711074968357734e0, 4.63033784615654529590e0,  5.76949722146069140550e0,  3.64784832476320460504e0,
                                           1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr std::array<double, 8> middle_bottom{1.0,
                                              2.05319162663775882187e0,
                                              1.67638483018380384940e0,
                                              6.89767334985100004550e-1,
                                              1.48103976427480074590e-1,
                                              1.51986665636164571966e-2,
                                              5.47593808499534494600e-4,
                                              1.05075007164441684324e-9};
constexpr std::array<double, 8> far_top{6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,  2.96560571828504891230e-1,
                                        2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr std::array<double, 8> far_bottom{1.0,
                                           5.99832206555887937690e-1,
                                           1.36929880922735805310e-1,
                                           1.48753612908506148525e-2,
                                           7.86869131145613259100e-4,
                                           1.84631831751005468180e-5,
                                           1.42151175831644588870e-7,
                                           2.04426310338993978564e-15};

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

// Element i of `out` becomes value(bits of index first + i).
template <class T, class F>
void fill(const Random& random, std::span<T> out, std::uint64_t first, const F& value) {
  const std::uint64_t lane = lane_of(random.stream(), 0);
  parallel_for(static_cast<index_t>(out.size()), fill_grain, [&](index_t begin, index_t end) {
    std::uint64_t index = first + static_cast<std::uint64_t>(begin);
    const std::span<T> part = out.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    for (std::size_t done = 0; done < part.size();) {
      const auto bits = values_of_two(random.seed(), lane, index / 4 * 2);
      for (std::size_t i = index % 4; i < 4 && done < part.size(); ++i, ++index) part[done++] = value(bits[i]);
    }
  });
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept {
  std::uint64_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
  philox_rounds(c, key[0], key[1]);
  return {static_cast<std::uint32_t>(c[0]), static_cast<std::uint32_t>(c[1]), static_cast<std::uint32_t>(c[2]), static_cast<std::uint32_t>(c[3])};
}

Random Random::fork(std::uint64_t id) const noexcept { return Random(seed_, mix(stream_ ^ mix(id))); }

std::uint64_t Random::bits(std::uint64_t index) const noexcept { return values_of(seed_, lane_of(stream_, 0), index / 2)[index % 2]; }
double Random::uniform(std::uint64_t index) const noexcept { return to_uniform(bits(index)); }
float Random::uniform_f32(std::uint64_t index) const noexcept { return to_uniform_f32(bits(index)); }
double Random::normal(std::uint64_t index) const noexcept { return normal_quantile(uniform(index)); }

index_t Random::integer(std::uint64_t index, index_t n) const {
  if (n < 1) throw ValueError("random", cat("an integer below ", n), "give at least 1");
  // Lemire (2019): the high word of a product, rejecting the few low words that would favour some results.
  const auto range = static_cast<std::uint64_t>(n);
  const std::uint64_t threshold = (0 - range) % range;
  for (std::uint32_t draw = 0;; ++draw) {
    const Wide product = static_cast<Wide>(values_of(seed_, lane_of(stream_, draw), index / 2)[index % 2]) * range;
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

std::uint64_t Random::stream_key() const noexcept { return lane_of(stream_, 0); }
bool Random::survives(std::uint64_t index, double p) const noexcept {
  const std::uint64_t group = index / survival_group, element = index % survival_group;
  const std::uint64_t value = values_of(seed_, stream_key(), survival_group / 4 * group + element % 16 / 2)[element / 16];
  return static_cast<std::uint32_t>(value >> (32 * (element % 2))) >= survival_threshold(p);
}

void Random::fill_uniform(std::span<float> out, std::uint64_t first) const { fill(*this, out, first, to_uniform_f32); }
void Random::fill_uniform(std::span<double> out, std::uint64_t first) const { fill(*this, out, first, to_uniform); }
void Random::fill_normal(std::span<float> out, std::uint64_t first) const {
  fill(*this, out, first, [](std::uint64_t bits) { return static_cast<float>(normal_quantile(to_uniform(bits))); });
}
void Random::fill_normal(std::span<double> out, std::uint64_t first) const {
  fill(*this, out, first, [](std::uint64_t bits) { return normal_quantile(to_uniform(bits)); });
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
