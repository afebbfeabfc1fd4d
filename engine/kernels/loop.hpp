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

/// Multiply-adds that are worth a thread's attention: about 10 microseconds.
constexpr index_t task_work = index_t{1} << 19;

/// Elements of a loop that make up task_work, `work` being that of one element.
constexpr index_t grain_for(index_t work) { return work >= task_work ? 1 : task_work / (work > 0 ? work : 1); }

/// Calls body(item, threads) for every item of a batch. Few large items are done in turn, each with threads of its own; many or
/// small ones are handed out whole.
template <class F>
void for_batch(index_t count, index_t work, const F& body) {
  if (count == 1 || (count < 32 && work > 2 * task_work)) {
    for (index_t i = 0; i < count; ++i) body(i, true);
    return;
  }
  parallel_chunks(count, grain_for(work), [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) body(i, false);
  });
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
