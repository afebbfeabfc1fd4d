#pragma once
// Panels: a few columns of a matrix side by side, padded to whole vectors. Only kernel implementations include it; internal linkage,
// see simd.hpp.

#include <algorithm>

#include "engine/kernels/transpose_square.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

// to[p * padded + x] = from[p + x * x_stride] for p < k, x < count: squares of registers; what lies beyond `count` becomes 0.
template <class T>
void transpose_panel(T* to, index_t padded, const T* from, index_t x_stride, index_t k, index_t count) {
  constexpr index_t w = width<T>;
  for (index_t p = 0; p < k; p += w)
    for (index_t x = 0; x < padded; x += w) {
      const index_t lanes = std::min(w, k - p), rows = std::min(w, count - x);
      Vec<T> v[w];
#pragma GCC unroll 16
      for (index_t i = 0; i < w; ++i) {
        const T* row = from + p + (x + i) * x_stride;
        v[i] = i >= rows ? Vec<T>(T{0}) : lanes == w ? load(row) : load_partial(row, lanes, T{0});
      }
      exchange_all<w / 2>(v);
#pragma GCC unroll 16
      for (index_t i = 0; i < w; ++i)
        if (i < lanes) store(to + (p + i) * padded + x, v[i]);
    }
}

// to[p * padded + x] = from[p * p_stride + x] for x < count, else 0.
template <class T>
void copy_panel(T* to, index_t padded, const T* from, index_t p_stride, index_t k, index_t count) {
  const index_t whole = count - count % width<T>;
  for (index_t p = 0; p < k; ++p, to += padded, from += p_stride) {
    for (index_t x = 0; x < whole; x += width<T>) store(to + x, load(from + x));
    if (whole < padded) store(to + whole, load_partial(from + whole, count - whole, T{0}));
  }
}

/// to[p * padded + x] = from[p * p_stride + x * x_stride] for x < count, else 0; `padded` is count rounded up to whole vectors.
template <class T>
void pack_panel(T* to, index_t padded, const T* from, index_t p_stride, index_t x_stride, index_t k, index_t count) {
  if (x_stride == 1) return copy_panel(to, padded, from, p_stride, k, count);
  if (p_stride == 1) return transpose_panel(to, padded, from, x_stride, k, count);
  for (index_t p = 0; p < k; ++p)
    for (index_t x = 0; x < padded; ++x) to[p * padded + x] = x < count ? from[p * p_stride + x * x_stride] : T{0};
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
