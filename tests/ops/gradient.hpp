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

/// Numbers on a grid of 1/64 around `offset`, which f32 holds exactly up to an offset of 2^17.
inline Tensor on_a_grid(const Shape& shape, double offset, DType dtype, std::uint64_t seed) {
  Tensor t = random_normal(shape, DType::f64, seed);
  for (double& v : std::span(t.mutable_data<double>(), static_cast<std::size_t>(t.numel()))) v = offset + std::round(16 * v) / 64;
  Tensor out = Tensor::empty(shape, dtype);
  visit_floating(dtype, "on_a_grid", [&](auto tag) {
    for (index_t i = 0; i < t.numel(); ++i) out.mutable_data<decltype(tag)>()[i] = static_cast<decltype(tag)>(t.data<double>()[i]);
  });
  return out;
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
