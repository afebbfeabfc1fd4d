#pragma once
// Gradients of squared distances. Only distance.cpp includes it; internal linkage, see simd.hpp.

#include "engine/kernels/block_sums.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

// Centres, and the sums of their gradients, with rows padded to whole vectors.
template <class T>
struct Padded {
  const T* c;
  index_t row;
};

// Coordinates [p, p + width) of point i: its gradient, and its share of the centres' gradients. Both use x - c: c - x is its exact
// opposite.
template <class T, bool to_points, bool to_centres>
GRADUS_INLINE Vec<T> backward_vector(const Vec<T>& x, const T* g, const T* c, T* gc, index_t row, index_t k) {
  Vec<T> sum(T{0});
  for (index_t j = 0; j < k; ++j, c += row, gc += to_centres ? row : 0) {
    const Vec<T> t = x - load(c), twice(g[j] + g[j]);
    if constexpr (to_points) sum = fma(twice, t, sum);
    if constexpr (to_centres) store(gc, fnma(twice, t, load(gc)));
  }
  return sum;
}

template <class T, bool to_points, bool to_centres>
void backward_rows(const DistanceBackwardArgs<T>& a, const Padded<T>& centres, index_t begin, index_t end, T* gc) {
  for (index_t i = begin; i < end; ++i) {
    const T *x = a.x + i * a.x_row, *g = a.g + i * a.g_row;
    for (index_t p = 0; p < a.d; p += width<T>) {
      const index_t lanes = std::min(width<T>, a.d - p);
      const Vec<T> xp = lanes == width<T> ? load(x + p) : load_partial(x + p, lanes, T{0});
      const Vec<T> sum = backward_vector<T, to_points, to_centres>(xp, g, centres.c + p, to_centres ? gc + p : gc, centres.row, a.k);
      if constexpr (to_points) {
        T* out = a.gx + i * a.gx_row + p;
        if (lanes == width<T>) store(out, sum);
        else store_partial(out, sum, lanes);
      }
    }
  }
}

template <class T>
void backward_one(const DistanceBackwardArgs<T>& a, bool threads) {
  const index_t row = round_up(a.d, width<T>), size = a.gc != nullptr ? a.k * row : 0;
  Scratch<T> room(a.k * row), sums(size);
  std::fill_n(room.data(), a.k * row, T{0});
  for (index_t j = 0; j < a.k; ++j) std::copy_n(a.c + j * a.c_row, a.d, room.data() + j * row);
  const Padded<T> centres{room.data(), row};
  sum_blocks(a.n, 2 * a.k * row, threads, size, sums.data(), [&](index_t, index_t begin, index_t end, T* gc) {
    if (a.gx == nullptr) backward_rows<T, false, true>(a, centres, begin, end, gc);
    else if (a.gc == nullptr) backward_rows<T, true, false>(a, centres, begin, end, gc);
    else backward_rows<T, true, true>(a, centres, begin, end, gc);
  });
  if (a.gc != nullptr)
    for (index_t j = 0; j < a.k; ++j) std::copy_n(sums.data() + j * row, a.d, a.gc + j * a.gc_row);
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
