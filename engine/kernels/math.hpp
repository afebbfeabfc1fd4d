#pragma once
// Mathematical functions of vectors, the same source and the same bits for every instruction set with fma. NaN, infinities, zeros of
// either sign and denormals are treated as in C's <math.h>. Largest error over the whole domain, in units in the last place of the
// result, from sweeps of every 211th float and of five million doubles (tests/kernels/math_test.cpp repeats coarser ones):
//
//            exp   expm1  log   log1p  sigmoid  tanh  erf   sin   cos   pow
//   float    1.1   1.4    1.0   1.0    1.5      1.4   1.5   0.6   0.6   0.6
//   double   1.1   1.4    1.0   1.0    1.5      1.4   1.7   1.0   1.0   1.0
//
// The polynomials are minimax fits (Remez) of the functions named beside them.

#include "engine/kernels/simd.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {
namespace math {

/// What the formats of float and double differ in.
template <class T>
struct Format;
template <>
struct Format<float> {
  static constexpr int mantissa_bits = 23;
  static constexpr std::uint32_t one = 0x3f800000, sqrt_half = 0x3f3504f3;
  static constexpr float infinity = __builtin_inff(), nan = __builtin_nanf(""), smallest_normal = 0x1p-126f;
  /// Adding it to |x| < 2^22 rounds x to an integer (halves to even) and leaves that in the low bits.
  static constexpr float rounder = 0x1.8p23f;
  static constexpr float integers_from = 0x1p23f;
  /// Two parts of ln 2, the first short enough for exact multiples.
  static constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
  /// e^x overflows above, is below half the smallest denormal below, and is normal from.
  static constexpr float exp_high = 89.0f, exp_low = -104.5f, exp_normal = -87.3365448f;
  /// 2^n and 2^-n are normal up to this n.
  static constexpr float largest_step = 126;
};
template <>
struct Format<double> {
  static constexpr int mantissa_bits = 52;
  static constexpr std::uint64_t one = 0x3ff0000000000000, sqrt_half = 0x3fe6a09e667f3bcd;
  static constexpr double infinity = __builtin_inf(), nan = __builtin_nan(""), smallest_normal = 0x1p-1022;
  static constexpr double rounder = 0x1.8p52;
  static constexpr double integers_from = 0x1p52;
  static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
  static constexpr double exp_high = 710.0, exp_low = -746.0, exp_normal = -708.39641853226408;
  static constexpr double largest_step = 1022;
};

// n coefficients from c on, halved like a tree: fewer steps wait for each other than in Horner's scheme. powers[k] = x^(2^k).
template <std::size_t n, class T>
GRADUS_INLINE Vec<T> polynomial_part(const T* c, const Vec<T>* powers) {
  if constexpr (n == 1) {
    return Vec<T>(*c);
  } else {
    constexpr int level = 63 - __builtin_clzll(n - 1);
    constexpr std::size_t half = std::size_t{1} << level;
    return fma(polynomial_part<n - half>(c + half, powers), powers[level], polynomial_part<half>(c, powers));
  }
}
/// c[0] + c[1] x + c[2] x^2 + ...
template <class T, std::size_t n>
GRADUS_INLINE Vec<T> polynomial(const Vec<T>& x, const T (&c)[n]) {
  Vec<T> powers[5] = {x};
  static_assert(n > 1 && n <= 32);
  for (int i = 1; i < 5; ++i) powers[i] = powers[i - 1] * powers[i - 1];
  return polynomial_part<n>(c, powers);
}

/// x, but at least (at most) `bound`; NaN stays.
template <class T>
GRADUS_INLINE Vec<T> at_least(const Vec<T>& x, T bound) {
  return greater_of(Vec<T>(bound), x);
}
template <class T>
GRADUS_INLINE Vec<T> at_most(const Vec<T>& x, T bound) {
  return less_of(Vec<T>(bound), x);
}

/// Nearest integer, halves to even; |x| < 2^22 (2^51).
template <class T>
GRADUS_INLINE Vec<T> round_small(const Vec<T>& x) {
#if defined(GRADUS_ISA_AVX512)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm512_roundscale_ps(x, 0));
  else return Vec<T>(_mm512_roundscale_pd(x, 0));
#else
  const Vec<T> rounder(Format<T>::rounder);
  return (x + rounder) - rounder;
#endif
}
/// 2^n for an integer n with a normal 2^n.
template <class T>
GRADUS_INLINE Vec<T> power_of_two(const Vec<T>& n) {
  return from_bits<T>((to_bits(n + Vec<T>(Format<T>::rounder)) << Format<T>::mantissa_bits) + Vec<UInt<T>>(Format<T>::one));
}

/// p 2^n for an integer n where neither 2^n nor the product is denormal or overflows.
template <class T>
GRADUS_INLINE Vec<T> times_power_of_two(const Vec<T>& p, const Vec<T>& n) {
#if defined(GRADUS_ISA_AVX512)
  if constexpr (sizeof(T) == 4) return Vec<T>(_mm512_scalef_ps(p, n));
  else return Vec<T>(_mm512_scalef_pd(p, n));
#else
  return p * power_of_two(n);
#endif
}

template <class T>
GRADUS_INLINE Vec<T> round(const Vec<T>& x) {
  const Vec<T> magnitude = abs(x), shift(Format<T>::integers_from);
  return select(magnitude < shift, copysign((magnitude + shift) - shift, x), x);
}
template <class T>
GRADUS_INLINE Vec<T> floor(const Vec<T>& x) {
  const Vec<T> r = round(x);
  return copysign(r - select(r > x, Vec<T>(T{1}), Vec<T>(T{0})), x);
}
template <class T>
GRADUS_INLINE Vec<T> ceil(const Vec<T>& x) {
  const Vec<T> r = round(x);
  return copysign(r + select(r < x, Vec<T>(T{1}), Vec<T>(T{0})), x);
}

// ---- Exponentials: x = n ln 2 + r, e^r = 1 + r + r^2 q(r).

/// q(r) = (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2.
template <class T>
GRADUS_INLINE Vec<T> exp_tail(const Vec<T>& r) {
  if constexpr (sizeof(T) == 4) {
    constexpr float c[] = {0.5f, 0.166666672f, 0.041666355f, 0.00833327323f, 0.00139410107f, 0.000199141985f};
    return polynomial(r, c);
  } else {
    constexpr double c[] = {0.5,
                            0.16666666666666677,
                            0.041666666666666699,
                            0.00833333333332161,
                            0.0013888888888866824,
                            0.0001984126988619355,
                            2.4801587360607961e-05,
                            2.7557244129090266e-06,
                            2.7557242702169208e-07,
                            2.5109068633596356e-08,
                            2.0924464015491689e-09};
    return polynomial(r, c);
  }
}

template <class T>
GRADUS_INLINE Vec<T> multiple_of_ln2(const Vec<T>& x) {
  return round_small(x * Vec<T>(static_cast<T>(1.44269504088896340736)));
}
/// e^(x - n ln 2) for n = multiple_of_ln2(x).
template <class T>
GRADUS_INLINE Vec<T> exp_remainder(const Vec<T>& x, const Vec<T>& n) {
  const Vec<T> r = fnma(n, Vec<T>(Format<T>::ln2_low), fnma(n, Vec<T>(Format<T>::ln2_high), x));
  return fma(r * r, exp_tail(r), r) + Vec<T>(T{1});
}
/// p 2^n; in two steps, of the same result, if some 2^n overflows or is denormal.
template <class T>
GRADUS_INLINE Vec<T> scale(const Vec<T>& p, const Vec<T>& n) {
  if (!xsimd::any(abs(n) > Vec<T>(Format<T>::largest_step))) return p * power_of_two(n);
  const Vec<T> half = round_small(n * Vec<T>(T{0.5}));
  return p * power_of_two(half) * power_of_two(n - half);
}

template <class T>
GRADUS_INLINE Vec<T> exp(const Vec<T>& x) {
  const Vec<T> bounded = at_most(at_least(x, Format<T>::exp_low), Format<T>::exp_high);
  const Vec<T> n = multiple_of_ln2(bounded);
  return scale(exp_remainder(bounded, n), n);
}

/// e^x for x <= 64, with results below the smallest normal number exactly 0: weights must not have denormal tails, which are slow.
template <class T>
GRADUS_INLINE Vec<T> exp_flush(const Vec<T>& x) {
  const Vec<T> bounded = at_least(x, Format<T>::exp_normal);
  const Vec<T> n = multiple_of_ln2(bounded);
  return select(x < Vec<T>(Format<T>::exp_normal), Vec<T>(T{0}), times_power_of_two(exp_remainder(bounded, n), n));
}

/// e^x - 1 = 2 (2^(n-1) (r + r^2 q) + 2^(n-1) - 1/2), with what r lost in rounding added to the small part.
template <class T>
GRADUS_INLINE Vec<T> expm1(const Vec<T>& x) {
  const Vec<T> bounded = at_most(at_least(x, T{-40}), Format<T>::exp_high);
  const Vec<T> n = multiple_of_ln2(bounded);
  const Vec<T> high = fnma(n, Vec<T>(Format<T>::ln2_high), bounded), low = n * Vec<T>(Format<T>::ln2_low);
  const Vec<T> r = high - low;
  const Vec<T> small = fma(r * r, exp_tail(r), (high - r) - low);
  const Vec<T> s = power_of_two(n - Vec<T>(T{1}));
  const Vec<T> y = fma(s, small, fma(s, r, s - Vec<T>(T{0.5})));
  constexpr T is_itself = sizeof(T) == 4 ? T(0x1p-25) : T(0x1p-54);
  return select(abs(x) < Vec<T>(is_itself), x, y + y);
}

// ---- Logarithms: x = 2^k (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); with s = f / (2 + f), log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)).

template <class T>
struct Logarithm {
  Vec<T> k, f;
};

/// For positive finite x.
template <class T>
GRADUS_INLINE Logarithm<T> log_reduce(const Vec<T>& x) {
  constexpr int bits = Format<T>::mantissa_bits;
  constexpr T up = sizeof(T) == 4 ? T(0x1p25) : T(0x1p54);
  const auto denormal = x < Vec<T>(Format<T>::smallest_normal);
  const Vec<T> normal = select(denormal, x * Vec<T>(up), x);
  const Vec<UInt<T>> shifted = to_bits(normal) + Vec<UInt<T>>(Format<T>::one - Format<T>::sqrt_half);
  const Vec<UInt<T>> mantissa = shifted & Vec<UInt<T>>((UInt<T>{1} << bits) - 1);
  // An exponent as a number: put into the low bits of 2^23 (2^52).
  constexpr T base = Format<T>::integers_from;
  const Vec<T> biased = from_bits<T>((shifted >> bits) | to_bits(Vec<T>(base)));
  const Vec<T> bias = select(denormal, Vec<T>(base + (sizeof(T) == 4 ? 127 + 25 : 1023 + 54)), Vec<T>(base + (sizeof(T) == 4 ? 127 : 1023)));
  return {biased - bias, from_bits<T>(mantissa + Vec<UInt<T>>(Format<T>::sqrt_half)) - Vec<T>(T{1})};
}

/// k ln 2 + log(1 + f) + c for a tiny c.
template <class T>
GRADUS_INLINE Vec<T> log_evaluate(const Logarithm<T>& x, const Vec<T>& c) {
  const Vec<T> s = x.f / (x.f + Vec<T>(T{2})), z = s * s;
  Vec<T> tail;  // (log((1 + s) / (1 - s)) / s - 2) / s^2
  if constexpr (sizeof(T) == 4) {
    constexpr float a[] = {0.666666627f, 0.400003314f, 0.285374224f, 0.235805333f};
    tail = polynomial(z, a);
  } else {
    constexpr double a[] = {0.66666666666666663, 0.4000000000000597,  0.28571428569153079, 0.22222222638811873,
                            0.18181776185639134, 0.15387071841748468, 0.13250478371764271, 0.13248531444133999};
    tail = polynomial(z, a);
  }
  const Vec<T> half_square = Vec<T>(T{0.5}) * x.f * x.f;
  const Vec<T> low = fma(s, fma(z, tail, half_square), fma(x.k, Vec<T>(Format<T>::ln2_low), c));
  return fma(x.k, Vec<T>(Format<T>::ln2_high), x.f - (half_square - low));
}

/// The result where x is 0, negative, infinite or NaN; `y` elsewhere. `x` is the logarithm's argument.
template <class T>
GRADUS_INLINE Vec<T> log_special(const Vec<T>& x, const Vec<T>& y) {
  const Vec<T> zero(T{0});
  const Vec<T> finite = select(x < Vec<T>(Format<T>::infinity), y, x);
  return select(x < zero, Vec<T>(Format<T>::nan), select(x == zero, Vec<T>(-Format<T>::infinity), finite));
}

template <class T>
GRADUS_INLINE Vec<T> log(const Vec<T>& x) {
  return log_special(x, log_evaluate(log_reduce(x), Vec<T>(T{0})));
}

template <class T>
GRADUS_INLINE Vec<T> log1p(const Vec<T>& x) {
  const Vec<T> one(T{1}), u = one + x, back = u - one;
  const Vec<T> lost = (one - (u - back)) + (x - back);
  const Vec<T> y = log_special(u, log_evaluate(log_reduce(u), lost / u));
  return select(x == Vec<T>(T{0}), x, y);
}

// ---- Built on exponentials.

/// 1 / (1 + e) or, for x < 0, e / (1 + e) with e = e^-|x|. What e and 1 + e lost in rounding is put back with the derivative.
template <class T>
GRADUS_INLINE Vec<T> sigmoid(const Vec<T>& x) {
  const Vec<T> one(T{1}), zero(T{0}), bounded = at_least(negate(abs(x)), Format<T>::exp_low);
  const Vec<T> n = multiple_of_ln2(bounded);
  const Vec<T> r = fnma(n, Vec<T>(Format<T>::ln2_low), fnma(n, Vec<T>(Format<T>::ln2_high), bounded));
  const Vec<T> t = fma(r * r, exp_tail(r), r), p = one + t;
  const Vec<T> e = scale(p, n), e_lost = select(n < Vec<T>(T{-100}), zero, (t - (p - one)) * power_of_two(n));
  const Vec<T> denominator = one + e, denominator_lost = (e - (denominator - one)) + e_lost;
  const auto negative = x < zero;
  const Vec<T> y = select(negative, e, one) / denominator;
  return fma(select(negative, e_lost, zero) - y * denominator_lost, select(negative, one - y, y), y);
}

/// x + x^3 P(x^2) for small x, 1 - 2 / (e^2x + 1) for large.
template <class T>
GRADUS_INLINE Vec<T> tanh(const Vec<T>& x) {
  const Vec<T> one(T{1}), magnitude = abs(x), z = x * x;
  const auto small = magnitude < Vec<T>(T{0.625});
  const Vec<T> twice = at_most(magnitude + magnitude, sizeof(T) == 4 ? T{20} : T{44});
  const Vec<T> n = multiple_of_ln2(twice);
  const Vec<T> denominator = exp_remainder(twice, n) * power_of_two(n) + one;
  if constexpr (sizeof(T) == 4) {
    constexpr float p[] = {-0.333333313f, 0.133332118f, -0.0539473854f, 0.0217037369f, -0.00818418059f, 0.00214863638f};
    const Vec<T> near = fma(magnitude * z, polynomial(z, p), magnitude);
    return copysign(select(small, near, one - Vec<T>(T{2}) / denominator), x);
  } else {
    // A rational function here (coefficients as in Cephes); one division serves both cases.
    constexpr double p[] = {-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1};
    constexpr double q[] = {4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0};
    const Vec<T> quotient = select(small, magnitude * z * polynomial(z, p), Vec<T>(T{-2})) / select(small, polynomial(z, q), denominator);
    return copysign(select(small, magnitude, one) + quotient, x);
  }
}

/// x + x (erf(x) / x - 1) below 1, 1 - e^(log erfc(x)) above.
template <class T>
GRADUS_INLINE Vec<T> erf(const Vec<T>& x) {
  const Vec<T> magnitude = abs(x), z = x * x;
  const Vec<T> bounded = at_most(magnitude, sizeof(T) == 4 ? T{4} : T{6});
  Vec<T> near, log_erfc;
  if constexpr (sizeof(T) == 4) {
    constexpr float p[] = {0.128379166f, -0.37612626f, 0.112835981f, -0.0268543586f, 0.0051893522f, -0.000801904651f, 7.88258258e-05f};
    constexpr float q[] = {0.000188036473f, -1.12957835f, -0.633219898f, -0.108418547f, 0.0252082385f, -0.00420455541f, 0.000441335113f, -2.16867484e-05f};
    near = polynomial(z, p);
    log_erfc = polynomial(bounded, q);
  } else {
    constexpr double p[] = {0.12837916709551259,     -0.37612638903183748,    0.11283791670954879,     -0.026866170645076841,  0.0052239776248177959,
                            -0.00085483269807829897, 0.00012055331108432023,  -1.4925595157991214e-05, 1.6460998245636663e-06, -1.6350283919075452e-07,
                            1.4659548865519936e-08,  -1.1371851304966611e-09, 5.9552890427785118e-11};
    constexpr double q[] = {-1.8436519375133279e-07, -1.1283772825953424,     -0.63662870282071771,    -0.10274664517782794,    0.019076960423375883,
                            0.00028222116219583357,  -0.0017709168578199568,  0.00064282595881653374,  -4.5950372247259424e-05, -6.9753649261992186e-05,
                            4.477138388233294e-05,   -1.6422010263667526e-05, 4.3019281765725053e-06,  -8.4522482641405652e-07, 1.2483602884475579e-07,
                            -1.3522839362174402e-08, 1.0170966732532106e-09,  -4.7519516926785792e-11, 1.039105418292334e-12};
    near = polynomial(z, p);
    log_erfc = polynomial(bounded, q);
  }
  const Vec<T> n = multiple_of_ln2(log_erfc);
  const Vec<T> far = fnma(exp_remainder(log_erfc, n), power_of_two(n), Vec<T>(T{1}));
  return copysign(select(magnitude < Vec<T>(T{1}), fma(magnitude, near, magnitude), far), x);
}

}  // namespace math
}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
