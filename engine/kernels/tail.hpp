#pragma once
// The end of a row, written in pieces. Only kernel implementations include it; internal linkage, see simd.hpp.

#include "engine/kernels/simd.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

/// store_partial for tiles of narrow matrices, which end a row every few instructions: AVX2's masked store is microcode on AMD and
/// made a (100, 10) by (10, 10) product take 1.6 times as long.
template <class T>
GRADUS_INLINE void store_tail(T* p, const Vec<T>& v, index_t n) {
#if defined(GRADUS_ISA_AVX512)
  store_partial(p, v, n);
#else
  alignas(64) T buffer[width<T>];
  v.store_aligned(buffer);
  index_t done = 0;
#pragma GCC unroll 4
  for (index_t piece = width<T>; piece > 0; piece /= 2)
    if ((n & piece) != 0) {
      __builtin_memcpy(p + done, buffer + done, static_cast<std::size_t>(piece) * sizeof(T));
      done += piece;
    }
#endif
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
