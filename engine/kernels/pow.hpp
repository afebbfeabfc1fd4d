#pragma once
// Powers of vectors: e^(y log|x|), with the logarithm and the product in pairs of doubles (about 106 bits), or in double for float.

#include "engine/kernels/convert.hpp"
#include "engine/kernels/math.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {
namespace math {

/// high + low, where low is less than half a unit in the last place of high.
struct Pair {
  Vec<double> high, low;
};

/// a b exactly, unless something overflows.
GRADUS_INLINE Pair exact_product(const Vec<double>& a, const Vec<double>& b) {
  const Vec<double> p = a * b;
  if constexpr (has_fma) return {p, fma(a, b, negate(p))};
  const Vec<double> splitter(134217729.0);  // 2^27 + 1 cuts 53 bits into 26 and 26 (Dekker)
  const Vec<double> as = a * splitter, bs = b * splitter;
  const Vec<double> a1 = as - (as - a), b1 = bs - (bs - b), a2 = a - a1, b2 = b - b1;
  return {p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2};
}
GRADUS_INLINE Pair multiply(const Pair& a, const Pair& b) {
  const Pair p = exact_product(a.high, b.high);
  return {p.high, p.low + (a.high * b.low + a.low * b.high)};
}
/// a + b for |a| >= |b| or a = 0.
GRADUS_INLINE Pair add_smaller(const Pair& a, const Pair& b) {
  const Vec<double> high = a.high + b.high;
  return {high, ((a.high - high) + b.high) + (a.low + b.low)};
}

/// log(x) for positive finite x, to about 2^-64 relative: k ln 2 + 2 s + s^3 (2/3 + s^2 T(s^2)).
GRADUS_INLINE Pair log_pair(const Vec<double>& x) {
  const Logarithm<double> l = log_reduce(x);
  const Vec<double> two(2.0), zero(0.0);
  const Vec<double> d = two + l.f, d_low = l.f - (d - two);
  const Vec<double> quotient = l.f / d;
  const Pair back = exact_product(quotient, d);
  const Pair s{quotient, ((l.f - back.high) - back.low - quotient * d_low) / d};
  const Pair z = multiply(s, s);
  constexpr double t[] = {0.39999999999999997, 0.28571428571432533, 0.22222222220367208, 0.18181818549144055,
                          0.15384577177769579, 0.13335590915812751, 0.11688583005478011, 0.11881630536182171};
  const Pair series = add_smaller({Vec<double>(0x1.5555555555555p-1), Vec<double>(0x1.5555555555555p-55)}, {z.high * polynomial(z.high, t), zero});
  const Pair fraction = add_smaller({two * s.high, two * s.low}, multiply(multiply(s, z), series));
  return add_smaller({l.k * Vec<double>(0x1.62e42fefa3800p-1), l.k * Vec<double>(0x1.ef35793c76730p-45)}, fraction);
}

/// e^(p.high + p.low).
GRADUS_INLINE Vec<double> exp_pair(const Pair& p) {
  const Vec<double> x = at_most(at_least(p.high, Format<double>::exp_low), Format<double>::exp_high);
  const Vec<double> n = multiple_of_ln2(x);
  const Vec<double> high = fnma(n, Vec<double>(Format<double>::ln2_high), x), low = n * Vec<double>(Format<double>::ln2_low) - p.low;
  const Vec<double> r = high - low;
  return scale((fma(r * r, exp_tail(r), (high - r) - low) + r) + Vec<double>(1.0), n);
}

/// |x|^y for |x| given and finite |y|; NaN where an argument is.
GRADUS_INLINE Vec<double> pow_magnitude(const Vec<double>& x, const Vec<double>& y) {
  const Pair l = log_pair(x);
  const Vec<double> l_high = log_special(x, l.high + l.low);
  const Pair product = exact_product(y, l_high);
  const Vec<double> low = product.low + y * ((l.high - l_high) + l.low);
  // Beyond any exponent's range the result is 0 or infinity, and the low part is meaningless.
  return exp_pair({product.high, select(abs(product.high) < Vec<double>(1000.0), low, Vec<double>(0.0))});
}
GRADUS_INLINE Vec<float> pow_magnitude(const Vec<float>& x, const Vec<float>& y) {
  return through_double([](const Vec<double>& a, const Vec<double>& b) { return exp(b * log(a)); }, x, y);
}

/// x^y with the special values of C's pow.
template <class T>
GRADUS_INLINE Vec<T> pow(const Vec<T>& x, const Vec<T>& y) {
  const Vec<T> one(T{1}), zero(T{0}), half(T{0.5}), magnitude = abs(x);
  // An exponent this large acts as an infinite one, but has no 0 * inf.
  constexpr T huge{1e30f};
  const Vec<T> power = pow_magnitude(magnitude, at_most(at_least(y, -huge), huge));
  const auto integer = floor(y) == y;
  const auto odd = integer & !(floor(y * half) == y * half);
  const Vec<T> signed_power = select(odd, copysign(power, x), power);
  const auto undefined = (x < zero) & !integer & (magnitude < Vec<T>(Format<T>::infinity));
  const Vec<T> general = select(undefined, Vec<T>(Format<T>::nan), signed_power);
  return select((x == one) | (y == zero), one, general);
}

}  // namespace math
}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
