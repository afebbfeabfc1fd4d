#pragma once
// Transposing inside registers. Only kernel implementations include it; internal linkage, see simd.hpp.

#include "engine/kernels/simd.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

// One step of Eklundh's transposition: the off-diagonal blocks of size `step` of rows a and b change places.
template <index_t step, class T, std::size_t... lane>
GRADUS_INLINE void exchange(Vec<T>& a, Vec<T>& b, std::index_sequence<lane...>) {
  constexpr auto w = static_cast<std::size_t>(width<T>), s = static_cast<std::size_t>(step);
  const auto x = static_cast<typename Vec<T>::register_type>(a), y = static_cast<typename Vec<T>::register_type>(b);
  a = Vec<T>((typename Vec<T>::register_type)__builtin_shufflevector(x, y, ((lane & s) == 0 ? lane : w + lane - s)...));
  b = Vec<T>((typename Vec<T>::register_type)__builtin_shufflevector(x, y, ((lane & s) == 0 ? lane + s : w + lane)...));
}

/// Transposes a square of registers, called with half the width.
template <index_t step, class T>
GRADUS_INLINE void exchange_all(Vec<T>* r) {
#pragma GCC unroll 16
  for (index_t i = 0; i < width<T>; ++i)
    if ((i & step) == 0) exchange<step>(r[i], r[i + step], std::make_index_sequence<static_cast<std::size_t>(width<T>)>());
  if constexpr (step > 1) exchange_all<step / 2>(r);
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
