#pragma once
// Elementwise arithmetic, maths, comparisons and selection. Broadcasting as in numpy; dtypes are never mixed; a plain number
// takes the tensor's dtype. All are differentiable, twice and more, unless said otherwise.

#include "engine/autograd/core_ops.hpp"
#include "engine/autograd/op.hpp"

namespace gradus {

[[nodiscard]] Tensor sub(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor mul(const Tensor& a, const Tensor& b);
/// a / b. Where no gradient arrives none is sent, even at b = 0.
[[nodiscard]] Tensor div(const Tensor& a, const Tensor& b);
/// a^b with IEEE's values. d/da of a^0 is 0; d/db of 0^b is 0 for b >= 0.
[[nodiscard]] Tensor pow(const Tensor& a, const Tensor& b);
/// Smaller and larger of two; NaN from either side propagates. Equal values share the gradient half and half.
[[nodiscard]] Tensor minimum(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor maximum(const Tensor& a, const Tensor& b);

[[nodiscard]] Tensor neg(const Tensor& x);
/// Gradient 0 at 0.
[[nodiscard]] Tensor abs(const Tensor& x);
/// -1, 0 or 1; gradient zero.
[[nodiscard]] Tensor sign(const Tensor& x);
[[nodiscard]] Tensor reciprocal(const Tensor& x);
[[nodiscard]] Tensor square(const Tensor& x);
/// sqrt(x). Where no gradient arrives none is sent, even at 0.
[[nodiscard]] Tensor sqrt(const Tensor& x);
[[nodiscard]] Tensor rsqrt(const Tensor& x);
[[nodiscard]] Tensor exp(const Tensor& x);
[[nodiscard]] Tensor expm1(const Tensor& x);
[[nodiscard]] Tensor log(const Tensor& x);
[[nodiscard]] Tensor log1p(const Tensor& x);
[[nodiscard]] Tensor sin(const Tensor& x);
[[nodiscard]] Tensor cos(const Tensor& x);
[[nodiscard]] Tensor tanh(const Tensor& x);
/// 1 / (1 + e^-x).
[[nodiscard]] Tensor sigmoid(const Tensor& x);
[[nodiscard]] Tensor erf(const Tensor& x);
/// max(0, x); gradient 0 at 0.
[[nodiscard]] Tensor relu(const Tensor& x);
/// max(0, x)^2, the activation of Theorem 2.2 of the k-means transformer.
[[nodiscard]] Tensor rectified_quadratic(const Tensor& x);
/// Rounding, gradient zero; round() takes halves to even.
[[nodiscard]] Tensor floor(const Tensor& x);
[[nodiscard]] Tensor ceil(const Tensor& x);
[[nodiscard]] Tensor round(const Tensor& x);

/// Comparisons give bool tensors. Comparisons with NaN are false, except not_equal.
[[nodiscard]] Tensor equal_to(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor not_equal(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor less(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor less_equal(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor greater(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor greater_equal(const Tensor& a, const Tensor& b);

/// Of bool tensors; the gradient is zero.
[[nodiscard]] Tensor logical_and(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor logical_or(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor logical_xor(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor logical_not(const Tensor& x);

/// condition ? a : b, element by element. The gradient is selected too: nothing of the branch not taken gets through.
[[nodiscard]] Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/// Conversion to another dtype; between f32 and f64 the gradient is converted back.
[[nodiscard]] Tensor cast(const Tensor& x, DType dtype);
/// x, through which no gradient flows; it stays on the tape, so that a replay computes it anew.
[[nodiscard]] Tensor stop_gradient(const Tensor& x);

/// `value` as a rank-0 tensor of x's dtype.
[[nodiscard]] Tensor scalar_like(const Tensor& x, double value);

[[nodiscard]] inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
[[nodiscard]] inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
[[nodiscard]] inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
[[nodiscard]] inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
[[nodiscard]] inline Tensor operator-(const Tensor& x) { return neg(x); }
[[nodiscard]] inline Tensor operator+(const Tensor& a, double b) { return add(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor operator-(const Tensor& a, double b) { return sub(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor operator*(const Tensor& a, double b) { return mul(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor operator/(const Tensor& a, double b) { return div(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor operator+(double a, const Tensor& b) { return add(scalar_like(b, a), b); }
[[nodiscard]] inline Tensor operator-(double a, const Tensor& b) { return sub(scalar_like(b, a), b); }
[[nodiscard]] inline Tensor operator*(double a, const Tensor& b) { return mul(scalar_like(b, a), b); }
[[nodiscard]] inline Tensor operator/(double a, const Tensor& b) { return div(scalar_like(b, a), b); }
[[nodiscard]] inline Tensor pow(const Tensor& a, double b) { return pow(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor pow(double a, const Tensor& b) { return pow(scalar_like(b, a), b); }
[[nodiscard]] inline Tensor where(const Tensor& condition, const Tensor& a, double b) { return where(condition, a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor where(const Tensor& condition, double a, const Tensor& b) { return where(condition, scalar_like(b, a), b); }
[[nodiscard]] inline Tensor minimum(const Tensor& a, double b) { return minimum(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor minimum(double a, const Tensor& b) { return minimum(scalar_like(b, a), b); }
[[nodiscard]] inline Tensor maximum(const Tensor& a, double b) { return maximum(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor maximum(double a, const Tensor& b) { return maximum(scalar_like(b, a), b); }
[[nodiscard]] inline Tensor equal_to(const Tensor& a, double b) { return equal_to(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor equal_to(double a, const Tensor& b) { return equal_to(scalar_like(b, a), b); }
[[nodiscard]] inline Tensor not_equal(const Tensor& a, double b) { return not_equal(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor not_equal(double a, const Tensor& b) { return not_equal(scalar_like(b, a), b); }
[[nodiscard]] inline Tensor less(const Tensor& a, double b) { return less(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor less(double a, const Tensor& b) { return less(scalar_like(b, a), b); }
[[nodiscard]] inline Tensor less_equal(const Tensor& a, double b) { return less_equal(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor less_equal(double a, const Tensor& b) { return less_equal(scalar_like(b, a), b); }
[[nodiscard]] inline Tensor greater(const Tensor& a, double b) { return greater(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor greater(double a, const Tensor& b) { return greater(scalar_like(b, a), b); }
[[nodiscard]] inline Tensor greater_equal(const Tensor& a, double b) { return greater_equal(a, scalar_like(a, b)); }
[[nodiscard]] inline Tensor greater_equal(double a, const Tensor& b) { return greater_equal(scalar_like(b, a), b); }

[[nodiscard]] std::span<const OpDef* const> unary_ops();
[[nodiscard]] std::span<const OpDef* const> binary_ops();
[[nodiscard]] std::span<const OpDef* const> logic_ops();

}  // namespace gradus
