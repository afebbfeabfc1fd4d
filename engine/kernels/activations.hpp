#pragma once
// Activations made of several functions, and gradients of activations, each in one pass. Only kernel implementations include it;
// internal linkage, see simd.hpp. Far out, where a function has become 0 or x to the last bit, it is that: inf * 0 would be NaN.

#include "engine/kernels/math.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {
namespace math {

/// f where |x| <= bound, else its limits: `below` and `above`.
template <class T>
GRADUS_INLINE Vec<T> within(T bound, const Vec<T>& x, const Vec<T>& f, const Vec<T>& below, const Vec<T>& above) {
  return select(x < Vec<T>(-bound), below, select(x > Vec<T>(bound), above, f));
}

/// Phi(x), the normal distribution.
template <class T>
GRADUS_INLINE Vec<T> normal_distribution(const Vec<T>& x) {
  return fma(erf(x * Vec<T>(T(0.70710678118654752440))), Vec<T>(T(0.5)), Vec<T>(T(0.5)));
}

template <class T>
GRADUS_INLINE Vec<T> gelu(const Vec<T>& x) {
  return within(T{40}, x, x * normal_distribution(x), Vec<T>(T{0}), x);
}
/// d gelu / dx = Phi(x) + x e^(-x^2 / 2) / sqrt(2 pi).
template <class T>
GRADUS_INLINE Vec<T> gelu_slope(const Vec<T>& x) {
  const Vec<T> density = exp_flush(x * x * Vec<T>(T(-0.5))) * Vec<T>(T(0.39894228040143267794));
  return within(T{40}, x, fma(x, density, normal_distribution(x)), Vec<T>(T{0}), Vec<T>(T{1}));
}

// gelu by tanh is x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)).
template <class T>
GRADUS_INLINE Vec<T> gelu_tanh_gate(const Vec<T>& x) {
  return sigmoid(x * fma(x * x, Vec<T>(T(0.044715 * 1.5957691216057307117)), Vec<T>(T(1.5957691216057307117))));
}
template <class T>
GRADUS_INLINE Vec<T> gelu_tanh(const Vec<T>& x) {
  return within(T{40}, x, x * gelu_tanh_gate(x), Vec<T>(T{0}), x);
}
template <class T>
GRADUS_INLINE Vec<T> gelu_tanh_slope(const Vec<T>& x) {
  const Vec<T> one(T{1}), s = gelu_tanh_gate(x);
  const Vec<T> inner = fma(x * x, Vec<T>(T(3 * 0.044715 * 1.5957691216057307117)), Vec<T>(T(1.5957691216057307117)));
  return within(T{40}, x, fma(x * s * (one - s), inner, s), Vec<T>(T{0}), one);
}

template <class T>
GRADUS_INLINE Vec<T> silu(const Vec<T>& x) {
  return within(T{1000}, x, x * sigmoid(x), Vec<T>(T{0}), x);
}
template <class T>
GRADUS_INLINE Vec<T> silu_slope(const Vec<T>& x) {
  const Vec<T> one(T{1}), s = sigmoid(x);
  return within(T{1000}, x, fma(x * s, one - s, s), Vec<T>(T{0}), one);
}

}  // namespace math
}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
