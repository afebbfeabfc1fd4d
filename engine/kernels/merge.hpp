#pragma once
// The pairwise tree in which partial sums are merged. Only kernel implementations include it; internal linkage, see simd.hpp.

#include "engine/kernels/simd.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

template <class T>
GRADUS_INLINE void add_to(T* to, const T* from, index_t size) {
  for (index_t i = 0; i < size; ++i) to[i] += from[i];
}

/// Adds up `count` buffers of `size` elements, one after another from `parts`, into the first; the others are overwritten.
template <class T>
void merge_parts(T* parts, index_t count, index_t size) {
  for (index_t h = 1; h < count; h *= 2)
    for (index_t q = 0; q + h < count; q += 2 * h) add_to(parts + q * size, parts + (q + h) * size, size);
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
