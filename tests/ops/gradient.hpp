#pragma once
// What tests of ops share: f64 tensors from lists, and gradients of a function of one tensor.

#include <cmath>
#include <functional>

#include "engine/autograd/gradcheck.hpp"

namespace gradus::testing {

inline Tensor f64(const Nested& values) { return Tensor::of(values, DType::f64); }
inline Tensor booleans(const Nested& values) { return Tensor::of(values, DType::boolean); }

/// d(sum(f(x) * cotangent)) / dx; a random cotangent where none is given.
inline Tensor gradient(const std::function<Tensor(const Tensor&)>& f, const Tensor& at, Tensor cotangent = {}) {
  Tape tape;
  const Tensor x = tape.variable(at);
  const Tensor y = f(x);
  if (!cotangent.defined()) cotangent = random_normal(y.shape(), y.dtype(), 7);
  return tape.backward(y, {.cotangent = cotangent}).of(x);
}

inline bool all_finite(const Tensor& t) {
  for (const double v : t.to_vector<double>())
    if (!std::isfinite(v)) return false;
  return true;
}

}  // namespace gradus::testing
