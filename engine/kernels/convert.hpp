#pragma once
// Vectors of floats as pairs of vectors of doubles, for functions that need the digits.

#include "engine/kernels/simd.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

using FloatRegister = Vec<float>::register_type;
using DoubleRegister = Vec<double>::register_type;
using Doubles [[gnu::vector_size(sizeof(DoubleRegister))]] = double;
using HalfFloats [[gnu::vector_size(sizeof(FloatRegister) / 2)]] = float;

template <std::size_t offset, std::size_t... i>
GRADUS_INLINE Vec<double> widen(const Vec<float>& x, std::index_sequence<i...>) {
  const auto r = static_cast<FloatRegister>(x);
  return Vec<double>((DoubleRegister) __builtin_convertvector(__builtin_shufflevector(r, r, (offset + i)...), Doubles));
}
template <std::size_t... i>
GRADUS_INLINE Vec<float> narrow(const Vec<double>& low, const Vec<double>& high, std::index_sequence<i...>) {
  const auto a = __builtin_convertvector((Doubles) static_cast<DoubleRegister>(low), HalfFloats);
  const auto b = __builtin_convertvector((Doubles) static_cast<DoubleRegister>(high), HalfFloats);
  return Vec<float>((FloatRegister)__builtin_shufflevector(a, b, i...));
}

/// f of the elements as doubles, rounded to float; f takes as many vectors as there are arguments after it.
template <class F, class... Vectors>
GRADUS_INLINE Vec<float> through_double(F&& f, const Vectors&... x) {
  constexpr auto half = std::make_index_sequence<Vec<double>::size>();
  return narrow(f(widen<0>(x, half)...), f(widen<Vec<double>::size>(x, half)...), std::make_index_sequence<Vec<float>::size>());
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
