#pragma once
// What losses share: reductions, weights of zero, parameters that are numbers or tensors. For engine/ops only.

#include "engine/ops/define.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus::define {

/// Attributes of a loss with one parameter that is a Number: the number itself, unless it came as an input.
struct ParameterAttributes {
  double number;
  Reduction reduction;
};

/// Declares what is left of `elements` after the reduction.
inline void declare_loss(Run& r, const Shape& elements, Reduction reduction) {
  if (reduction == Reduction::mean && numel(elements) == 0)
    throw ShapeError(r.name(), cat("the mean of no elements, shape ", elements), "there is no such number; the sum is 0");
  r.declare(reduction == Reduction::none ? elements : Shape{}, r.in(0).dtype());
}

[[nodiscard]] inline Tensor reduced(const Tensor& elements, Reduction reduction) {
  if (reduction == Reduction::none) return elements;
  return reduction == Reduction::sum ? sum(elements) : mean(elements);
}

/// w x, where 0 times `infinity` (the one x may reach) is 0: what has no weight costs nothing, however far it is.
[[nodiscard]] inline Tensor weighted(const Tensor& w, const Tensor& x, double infinity) {
  const Tensor nothing = where(equal_to(w, 0.0), equal_to(x, infinity), 0.0);
  return w * where(nothing, 0.0, x);
}

[[nodiscard]] inline Tensor as_tensor(const Number& n, const Tensor& like) { return n.is_tensor() ? n.tensor() : scalar_like(like, n.value()); }
[[nodiscard]] inline Tensor times(const Tensor& x, const Number& n) { return x * as_tensor(n, x); }
[[nodiscard]] inline Number inverse(const Number& n) { return n.is_tensor() ? Number(reciprocal(n.tensor())) : Number(1 / n.value()); }

/// Applies an op of two tensors and a parameter, which is the last input if it is a tensor.
[[nodiscard]] inline Tensor apply_with(const OpDef& op, const Tensor& a, const Tensor& b, const Number& parameter, Reduction reduction = Reduction::none) {
  if (parameter.is_tensor()) return apply(op, {&a, &b, &parameter.tensor()}, ParameterAttributes{0, reduction});
  return apply(op, {&a, &b}, ParameterAttributes{parameter.value(), reduction});
}
/// That parameter, seen from inside.
[[nodiscard]] inline Number parameter_of(const Run& r) { return r.inputs() > 2 ? Number(r.in(2)) : Number(r.attr<ParameterAttributes>().number); }

/// It must be of rank 0, finite and > 0.
inline void require_positive_parameter(const Run& r, const char* what) {
  if (r.inputs() > 2) {
    require_same_dtype(r, 0, 2);
    if (r.in(2).rank() != 0) throw ShapeError(r.name(), cat(what, " has shape ", r.in(2).shape()), "give a number or a rank-0 tensor");
  }
  require_positive(r.name(), what, parameter_of(r).value());
}

}  // namespace gradus::define
