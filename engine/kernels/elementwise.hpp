#pragma once
// Elementwise kernels. A new one is a line in a list below: its name and its formula on vectors, which only elementwise.cpp expands,
// once per instruction set (functions: engine/kernels/simd.hpp, math.hpp and activations.hpp).

#include "engine/core/dtype.hpp"

// y = f(x)
#define GRADUS_UNARY_KERNELS(X)                                                   \
  X(neg, negate(x))                                                               \
  X(abs, abs(x))                                                                  \
  X(sign, select(x > zero, one, select(x < zero, negate(one), x + zero)))         \
  X(reciprocal, one / x)                                                          \
  X(square, x* x)                                                                 \
  X(sqrt, sqrt(x))                                                                \
  X(rsqrt, one / sqrt(x))                                                         \
  X(exp, math::exp(x))                                                            \
  X(expm1, math::expm1(x))                                                        \
  X(log, math::log(x))                                                            \
  X(log1p, math::log1p(x))                                                        \
  X(sin, math::sin(x))                                                            \
  X(cos, math::cos(x))                                                            \
  X(tanh, math::tanh(x))                                                          \
  X(sigmoid, math::sigmoid(x))                                                    \
  X(erf, math::erf(x))                                                            \
  X(relu, select(x <= zero, zero, x))                                             \
  X(rectified_quadratic, select(x <= zero, zero, x) * select(x <= zero, zero, x)) \
  X(gelu, math::gelu(x))                                                          \
  X(gelu_tanh, math::gelu_tanh(x))                                                \
  X(silu, math::silu(x))                                                          \
  X(floor, math::floor(x))                                                        \
  X(ceil, math::ceil(x))                                                          \
  X(round, math::round(x))

// y = f(a, b); of a gradient: a is the input x or the output y of the function, b what arrives
#define GRADUS_BINARY_KERNELS(X)                              \
  X(add, a + b)                                               \
  X(sub, a - b)                                               \
  X(mul, a* b)                                                \
  X(div, a / b)                                               \
  X(pow, math::pow(a, b))                                     \
  X(minimum, minimum(a, b))                                   \
  X(maximum, maximum(a, b))                                   \
  X(tanh_gradient, b*(Vec<T>(T{1}) - a * a))                  \
  X(sigmoid_gradient, b*(a * (Vec<T>(T{1}) - a)))             \
  X(relu_gradient, select(a > Vec<T>(T{0}), b, Vec<T>(T{0}))) \
  X(gelu_gradient, b* math::gelu_slope(a))                    \
  X(gelu_tanh_gradient, b* math::gelu_tanh_slope(a))          \
  X(silu_gradient, b* math::silu_slope(a))

// y = 1 where the mask f(a, b) holds, else 0
#define GRADUS_COMPARE_KERNELS(X) \
  X(equal, a == b)                \
  X(not_equal, !(a == b))         \
  X(less, a < b)                  \
  X(less_equal, a <= b)           \
  X(greater, a > b)               \
  X(greater_equal, a >= b)

namespace gradus::kernels {

#define GRADUS_ENUMERATOR(name, formula) name,
#define GRADUS_NAME(name, formula) #name,

enum class Unary : std::uint8_t { GRADUS_UNARY_KERNELS(GRADUS_ENUMERATOR) count };
enum class Binary : std::uint8_t { GRADUS_BINARY_KERNELS(GRADUS_ENUMERATOR) count };
enum class Compare : std::uint8_t { GRADUS_COMPARE_KERNELS(GRADUS_ENUMERATOR) count };

/// "exp", "add", "less_equal", ...
[[nodiscard]] constexpr const char* name_of(Unary kind) noexcept {
  constexpr const char* names[] = {GRADUS_UNARY_KERNELS(GRADUS_NAME)};
  return names[static_cast<std::size_t>(kind)];
}
[[nodiscard]] constexpr const char* name_of(Binary kind) noexcept {
  constexpr const char* names[] = {GRADUS_BINARY_KERNELS(GRADUS_NAME)};
  return names[static_cast<std::size_t>(kind)];
}
[[nodiscard]] constexpr const char* name_of(Compare kind) noexcept {
  constexpr const char* names[] = {GRADUS_COMPARE_KERNELS(GRADUS_NAME)};
  return names[static_cast<std::size_t>(kind)];
}

#undef GRADUS_ENUMERATOR
#undef GRADUS_NAME

/// Spans of n elements; a step is 1 (a span) or 0 (one element for all). The output may be one of the inputs, but must not overlap
/// them otherwise. Error bounds of the functions are in math.hpp; NaN goes in and out of all of them.
template <class T>
struct ElementwiseKernels {
  using UnaryKernel = void (*)(const T* x, T* y, index_t n);
  using BinaryKernel = void (*)(const T* a, index_t a_step, const T* b, index_t b_step, T* y, index_t n);
  using CompareKernel = void (*)(const T* a, index_t a_step, const T* b, index_t b_step, std::uint8_t* y, index_t n);

  UnaryKernel unary[static_cast<std::size_t>(Unary::count)];
  BinaryKernel binary[static_cast<std::size_t>(Binary::count)];
  CompareKernel compare[static_cast<std::size_t>(Compare::count)];
  /// y = c ? a : b; c is 0 or 1.
  void (*select)(const std::uint8_t* c, index_t c_step, const T* a, index_t a_step, const T* b, index_t b_step, T* y, index_t n);
  /// y = value.
  void (*fill)(T value, T* y, index_t n);
  /// y += alpha * x, in one rounding where there is fma.
  void (*scale_add)(T alpha, const T* x, T* y, index_t n);
};

}  // namespace gradus::kernels
