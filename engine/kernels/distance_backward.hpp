#pragma once
// Gradients of squared distances. Only distance.cpp includes it; internal linkage, see simd.hpp.

#include "engine/kernels/block_sums.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

constexpr int backward_points = 4;  // share each load and store of a centre

// Coordinates [p, p + width) of a few points: half their gradient, and half their share of the centres' gradients. Both use x - c:
// c - x is its exact opposite. Rows of centres and of their sums are padded to whole vectors.
template <class T, int points, bool to_points, bool to_centres>
GRADUS_INLINE void backward_vector(const DistanceBackwardArgs<T>& a, index_t i, index_t p, const T* c, T* gc, index_t row) {
  const index_t lanes = std::min(width<T>, a.d - p);
  Vec<T> x[points], sum[points];
#pragma GCC unroll 4
  for (int r = 0; r < points; ++r) {
    const T* from = a.x + (i + r) * a.x_row + p;
    x[r] = lanes == width<T> ? load(from) : load_partial(from, lanes, T{0});
    sum[r] = Vec<T>(T{0});
  }
  const T* g = a.g + i * a.g_row;
  for (index_t j = 0; j < a.k; ++j, c += row, gc += to_centres ? row : 0) {
    const Vec<T> cj = load(c);
    Vec<T> total = to_centres ? load(gc) : cj;
#pragma GCC unroll 4
    for (int r = 0; r < points; ++r) {
      const Vec<T> t = x[r] - cj, weight(g[r * a.g_row + j]);
      if constexpr (to_points) sum[r] = fma(weight, t, sum[r]);
      if constexpr (to_centres) total = fnma(weight, t, total);
    }
    if constexpr (to_centres) store(gc, total);
  }
  if constexpr (to_points) {
#pragma GCC unroll 4
    for (int r = 0; r < points; ++r) {
      T* out = a.gx + (i + r) * a.gx_row + p;
      if (lanes == width<T>) store(out, sum[r] + sum[r]);
      else store_partial(out, sum[r] + sum[r], lanes);
    }
  }
}

template <class T, bool to_points, bool to_centres>
void backward_rows(const DistanceBackwardArgs<T>& a, const T* centres, index_t row, index_t begin, index_t end, T* gc) {
  for (index_t p = 0; p < row; p += width<T>) {
    T* sums = to_centres ? gc + p : gc;
    index_t i = begin;
    for (; i + backward_points <= end; i += backward_points) backward_vector<T, backward_points, to_points, to_centres>(a, i, p, centres + p, sums, row);
    for (; i < end; ++i) backward_vector<T, 1, to_points, to_centres>(a, i, p, centres + p, sums, row);
  }
}

template <class T>
void backward_one(const DistanceBackwardArgs<T>& a, bool threads) {
  const index_t row = round_up(a.d, width<T>), size = a.gc != nullptr ? a.k * row : 0;
  Scratch<T> room(a.k * row), sums(size);
  std::fill_n(room.data(), a.k * row, T{0});
  for (index_t j = 0; j < a.k; ++j) std::copy_n(a.c + j * a.c_row, a.d, room.data() + j * row);
  sum_blocks(a.n, 2 * a.k * row, threads, size, sums.data(), [&](index_t, index_t begin, index_t end, T* gc) {
    if (a.gx == nullptr) backward_rows<T, false, true>(a, room.data(), row, begin, end, gc);
    else if (a.gc == nullptr) backward_rows<T, true, false>(a, room.data(), row, begin, end, gc);
    else backward_rows<T, true, true>(a, room.data(), row, begin, end, gc);
  });
  if (a.gc != nullptr)
    for (index_t j = 0; j < a.k; ++j)
      for (index_t p = 0; p < a.d; ++p) a.gc[j * a.gc_row + p] = sums.data()[j * row + p] + sums.data()[j * row + p];
}

template <class T>
void squared_distance_backward(const DistanceBackwardArgs<T>& args) {
  if (args.batch <= 0 || (args.gx == nullptr && args.gc == nullptr)) return;
  for_batch(args.batch, 2 * args.n * args.k * args.d, [&](index_t item, bool threads) {
    DistanceBackwardArgs<T> one = args;
    one.x += item * args.x_batch;
    one.c += item * args.c_batch;
    one.g += item * args.g_batch;
    if (one.gx != nullptr) one.gx += item * args.gx_batch;
    if (one.gc != nullptr) one.gc += item * args.gc_batch;
    backward_one(one, threads);
  });
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
