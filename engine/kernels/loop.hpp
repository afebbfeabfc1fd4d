#pragma once
// parallel_for for kernel implementations; internal linkage, see simd.hpp. (The template of core would be code that objects share.)

#include "engine/core/parallel.hpp"
#include "engine/kernels/simd.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

constexpr index_t ceil_div(index_t a, index_t b) { return (a + b - 1) / b; }
constexpr index_t round_up(index_t a, index_t b) { return ceil_div(a, b) * b; }

/// Calls body(begin, end) for every chunk of [0, n), on several threads when there are several chunks.
template <class F>
void parallel_chunks(index_t n, index_t grain, const F& body) {
  parallel_for(
      n, grain, [](void* f, index_t begin, index_t end) { (*static_cast<const F*>(f))(begin, end); }, const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
