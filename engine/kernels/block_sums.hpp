#pragma once
// Sums over points in fixed blocks and a fixed tree, on any number of threads. Only the distance kernels include it; internal
// linkage, see simd.hpp.

#include <algorithm>

#include "engine/kernels/distance.hpp"
#include "engine/kernels/loop.hpp"
#include "engine/kernels/merge.hpp"
#include "engine/kernels/scratch.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

constexpr index_t block_count(index_t n) { return ceil_div(n, distance_block_rows); }

// Blocks [first, first + count) of n points into `sum`, the upper part of the tree below; `spare` holds one sum for each level.
template <class T, class Body>
void sum_subtree(index_t n, index_t first, index_t count, index_t size, T* sum, T* spare, const Body& body) {
  if (count == 1) {
    std::fill_n(sum, size, T{0});
    body(first, first * distance_block_rows, std::min(n, (first + 1) * distance_block_rows), sum);
    return;
  }
  index_t half = 1;
  while (2 * half < count) half *= 2;
  sum_subtree(n, first, half, size, sum, spare + size, body);
  sum_subtree(n, first + half, count - half, size, spare, spare + size, body);
  add_to(sum, spare, size);
}

/// result[0..size) = the sum over blocks of distance_block_rows of n points; body(block, begin, end, sum) adds the points
/// [begin, end) to a sum that starts at zero. `work` is that of one point, in multiply-adds.
template <class T, class Body>
void sum_blocks(index_t n, index_t work, bool threads, index_t size, T* result, const Body& body) {
  const index_t blocks = block_count(n);
  if (blocks == 0) return void(std::fill_n(result, size, T{0}));
  // A task does a whole subtree, so that few sums are kept at once however many blocks there are.
  constexpr index_t most_tasks = 64;
  index_t subtree = 1, levels = 0;
  for (; ceil_div(blocks, subtree) > most_tasks; subtree *= 2) ++levels;
  const index_t tasks = ceil_div(blocks, subtree);
  Scratch<T> parts(tasks > 1 ? tasks * size : 0);
  T* sums = tasks > 1 ? parts.data() : result;
  parallel_chunks(tasks, threads ? grain_for(work * distance_block_rows * subtree) : tasks, [&](index_t begin, index_t end) {
    Scratch<T> spare(levels * size);
    for (index_t task = begin; task < end; ++task)
      sum_subtree(n, task * subtree, std::min(subtree, blocks - task * subtree), size, sums + task * size, spare.data(), body);
  });
  if (tasks == 1) return;
  merge_parts(sums, tasks, size);
  std::copy_n(sums, size, result);
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
