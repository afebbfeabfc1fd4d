#pragma once
// What tests of ops share: small tensors, gradients of a function of one tensor, and the text of errors.

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "engine/autograd/gradcheck.hpp"
#include "engine/autograd/tape.hpp"
#include "engine/tensor/view.hpp"

namespace gradus::testing {

inline constexpr double inf = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();

inline Tensor f64(const Nested& values) { return Tensor::of(values, DType::f64); }
inline Tensor booleans(const Nested& values) { return Tensor::of(values, DType::boolean); }

/// d(sum(f(x) * cotangent)) / dx; a random cotangent when none is given. `record` takes the differentiable backward, not the fused one.
inline Tensor gradient(const std::function<Tensor(const Tensor&)>& f, const Tensor& at, Tensor cotangent = {}, bool record = false) {
  Tape tape;
  const Tensor x = tape.variable(at);
  const Tensor y = f(x);
  if (!cotangent.defined()) cotangent = random_normal(y.shape(), y.dtype(), 7);
  return tape.backward(y, {.record = record, .cotangent = cotangent}).of(x).detached();
}

inline bool all_finite(const Tensor& t) {
  return visit_floating(t.dtype(), "all_finite", [&](auto tag) {
    for (const auto v : t.to_vector<decltype(tag)>())
      if (!std::isfinite(v)) return false;
    return true;
  });
}

/// What an error says, or "no error".
inline std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace gradus::testing
