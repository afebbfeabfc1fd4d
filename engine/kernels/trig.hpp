#pragma once
// Sine and cosine of vectors. The argument is reduced to x = q pi/2 + r + low with |r| <= pi/4, by products with a pi/2 of 152 bits up to
// 8e5 and by integer arithmetic with the bits of 2/pi beyond, so that huge arguments keep all their digits. Single precision is
// evaluated in double.

#include "engine/kernels/convert.hpp"
#include "engine/kernels/math.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {
namespace math {

/// One reduced argument; of the quadrant only the two lowest bits matter.
struct ReducedAngle {
  double r, low;
  std::uint64_t quadrant;
};

/// A vector of them.
struct ReducedAngles {
  Vec<double> r, low;
  Vec<std::uint64_t> quadrant;
};

__extension__ using Wide = unsigned __int128;

/// For finite |x| >= 2^19 (Payne and Hanek). Of x 2/pi only bits below 4 count: x = M 2^e is multiplied by the 192 bits of 2/pi from
/// weight 2^(1-e) on, modulo 2^192.
inline ReducedAngle reduce_huge(double x) {
  // A word of zeros, then the bits of 2/pi after the point.
  static constexpr std::uint64_t two_over_pi[] = {
      0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0, 0x06492eea09d1921c,
      0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f,
      0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  const std::uint64_t mantissa = (bits & 0xfffffffffffff) | 0x10000000000000;
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff) - 1075;
  const int first = exponent - 2 + 64, word = first / 64, shift = first % 64;
  const auto piece = [&](int i) { return shift == 0 ? two_over_pi[word + i] : (two_over_pi[word + i] << shift) | (two_over_pi[word + i + 1] >> (64 - shift)); };
  const Wide low = Wide{mantissa} * piece(2), middle = Wide{mantissa} * piece(1) + (low >> 64);
  const std::uint64_t top = mantissa * piece(0) + static_cast<std::uint64_t>(middle >> 64);
  std::uint64_t quadrant = top >> 62;
  Wide fraction = (Wide{top} << 66) | (Wide{static_cast<std::uint64_t>(middle)} << 2) | (static_cast<std::uint64_t>(low) >> 62);
  bool negative = false;
  if (fraction >> 127) {  // nearer to the next quadrant
    ++quadrant;
    fraction = -fraction;
    negative = true;
  }
  int zeros = 0;
  for (; !(fraction >> 127) && zeros < 127; ++zeros) fraction <<= 1;
  // Times pi/2, as 64 bits: r = product 2^(-63 - zeros), split so that both parts are exact.
  const auto product = static_cast<std::uint64_t>((Wide{static_cast<std::uint64_t>(fraction >> 64)} * 0xc90fdaa22168c235) >> 64);
  const double unit = __builtin_bit_cast(double, static_cast<std::uint64_t>(1023 - 52 - zeros) << 52);
  double r = static_cast<double>(static_cast<std::int64_t>(product >> 11)) * unit;
  double r_low = static_cast<double>(static_cast<std::int64_t>(product & 0x7ff)) * (unit * 0x1p-11);
  if (negative != (x < 0)) {
    r = -r;
    r_low = -r_low;
  }
  return {r, r_low, x < 0 ? 0 - quadrant : quadrant};
}

/// Replaces the angles whose |x| is above `bound` by those of the integer reduction; infinities give NaN.
[[gnu::noinline]] inline ReducedAngles reduce_huge_lanes(const Vec<double>& x, double bound, const ReducedAngles& angles) {
  constexpr index_t lanes = width<double>;
  double arguments[lanes], r[lanes], low[lanes];
  std::uint64_t quadrant[lanes];
  store(arguments, x);
  store(r, angles.r);
  store(low, angles.low);
  store(quadrant, angles.quadrant);
  for (index_t i = 0; i < lanes; ++i) {
    const double argument = arguments[i], magnitude = argument < 0 ? -argument : argument;
    if (!(magnitude > bound)) continue;
    const ReducedAngle one = magnitude < Format<double>::infinity ? reduce_huge(argument) : ReducedAngle{Format<double>::nan, 0, 0};
    r[i] = one.r;
    low[i] = one.low;
    quadrant[i] = one.quadrant;
  }
  return {load(r), load(low), load(quadrant)};
}

/// x 2/pi + 1.5 2^52: an integer in the low bits.
GRADUS_INLINE Vec<double> quarter_turns(const Vec<double>& x) { return fma(x, Vec<double>(0.63661977236758134308), Vec<double>(Format<double>::rounder)); }

/// All digits of a double's remainder: the products with the first three parts of pi/2 (33 bits each) are exact.
GRADUS_INLINE ReducedAngles reduce_angles(const Vec<double>& x) {
  constexpr double bound = 8e5;
  const Vec<double> shifted = quarter_turns(x), n = shifted - Vec<double>(Format<double>::rounder);
  const Vec<double> first = x - n * Vec<double>(0x1.921fb54400000p+0);
  const auto minus = [](const Vec<double>& a, const Vec<double>& b, Vec<double>& error) {
    const Vec<double> d = a - b, back = d - a;
    error = (a - (d - back)) - (b + back);
    return d;
  };
  Vec<double> error1, error2;
  const Vec<double> second = minus(first, n * Vec<double>(0x1.0b4611a600000p-34), error1);
  const Vec<double> third = minus(second, n * Vec<double>(0x1.3198a2e000000p-69), error2);
  const Vec<double> rest = (error1 + error2) - n * Vec<double>(0x1.b839a252049c1p-104);
  const Vec<double> r = third + rest;
  ReducedAngles angles{r, (third - r) + rest, to_bits(shifted)};
  if (xsimd::any(abs(x) > Vec<double>(bound))) angles = reduce_huge_lanes(x, bound, angles);
  return angles;
}

/// Enough of the remainder of a float: pi/2 in 25 and 53 bits.
GRADUS_INLINE ReducedAngles reduce_float_angles(const Vec<double>& x) {
  constexpr double bound = 2e8;
  const Vec<double> shifted = quarter_turns(x), n = shifted - Vec<double>(Format<double>::rounder);
  const Vec<double> r = (x - n * Vec<double>(0x1.921fb50000000p+0)) - n * Vec<double>(0x1.110b4611a6263p-26);
  ReducedAngles angles{r, Vec<double>(0.0), to_bits(shifted)};
  if (xsimd::any(abs(x) > Vec<double>(bound))) angles = reduce_huge_lanes(x, bound, angles);
  return angles;
}

// The quadrant's lowest bit swaps sine and cosine, the next one negates.
GRADUS_INLINE Vec<double> by_quadrant(const Vec<double>& sine, const Vec<double>& cosine, const Vec<std::uint64_t>& quadrant) {
  const Vec<std::uint64_t> odd = Vec<std::uint64_t>(std::uint64_t{0}) - (quadrant & Vec<std::uint64_t>(std::uint64_t{1}));
  const Vec<std::uint64_t> value = (to_bits(cosine) & odd) | (to_bits(sine) & ~odd);
  return from_bits<double>(value ^ ((quadrant << 62) & Vec<std::uint64_t>(sign_bit<double>)));
}

GRADUS_INLINE Vec<double> sine_at(const ReducedAngles& a) {
  constexpr double s[] = {0.0083333333333225103, -0.0001984126982986269, 2.7557313705708119e-06, -2.5050759676521337e-08, 1.5896859411754037e-10};
  constexpr double c[] = {0.041666666666666616,   -0.0013888888888876074, 2.480158729053629e-05,
                          -2.755731462215843e-07, 2.0875756319524065e-09, -1.1361208938945133e-11};
  const Vec<double> one(1.0), half(0.5), z = a.r * a.r, cube = z * a.r;
  // r - r^3/6 + r^5 S(z), and low (1 - z/2)
  const Vec<double> sine = a.r - ((z * (half * a.low - cube * polynomial(z, s)) - a.low) - cube * Vec<double>(-0.16666666666666632));
  // 1 - z/2 + z^2 C(z) - r low, with what 1 - z/2 lost in rounding
  const Vec<double> half_z = half * z, w = one - half_z;
  const Vec<double> cosine = w + (((one - w) - half_z) + (z * z * polynomial(z, c) - a.r * a.low));
  return by_quadrant(sine, cosine, a.quadrant);
}

GRADUS_INLINE Vec<double> float_sine_at(const ReducedAngles& a) {
  constexpr double s[] = {-0.1666666664175894, 0.0083333293935502276, -0.00019839335907931958, 2.7183131256667936e-06};
  constexpr double c[] = {1.0, -0.5, 0.041666647061100223, -0.0013887374878391392, 2.4439121290168702e-05};
  const Vec<double> z = a.r * a.r;
  return by_quadrant(fma(a.r * z, polynomial(z, s), a.r), polynomial(z, c), a.quadrant);
}

GRADUS_INLINE ReducedAngles quarter_later(ReducedAngles a) {
  a.quadrant = a.quadrant + Vec<std::uint64_t>(std::uint64_t{1});
  return a;
}

GRADUS_INLINE Vec<double> sin(const Vec<double>& x) { return select(abs(x) < Vec<double>(0x1p-27), x, sine_at(reduce_angles(x))); }
GRADUS_INLINE Vec<double> cos(const Vec<double>& x) { return sine_at(quarter_later(reduce_angles(x))); }
GRADUS_INLINE Vec<float> sin(const Vec<float>& x) {
  const Vec<float> y = through_double([](const Vec<double>& v) { return float_sine_at(reduce_float_angles(v)); }, x);
  return select(x == Vec<float>(0.0f), x, y);
}
GRADUS_INLINE Vec<float> cos(const Vec<float>& x) {
  return through_double([](const Vec<double>& v) { return float_sine_at(quarter_later(reduce_float_angles(v))); }, x);
}

}  // namespace math
}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
