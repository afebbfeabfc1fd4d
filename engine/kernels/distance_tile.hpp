#pragma once
// Distances of a few points to a panel of centres, held in registers. Only the distance kernels include it; internal linkage, see
// simd.hpp.

#include <algorithm>

#include "engine/kernels/loop.hpp"
#include "engine/kernels/tail.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

/// Columns of a full panel of centres, in vectors, and the points of a tile: few enough that accumulators, centres, the coordinate
/// and the difference fit the registers.
constexpr int centre_vectors = 2;
#if defined(GRADUS_ISA_AVX512) || defined(__aarch64__)
constexpr int tile_points = 8;
#else
constexpr int tile_points = 4;
#endif
template <class T>
constexpr index_t centre_panel = centre_vectors* width<T>;

/// Centres with their coordinates transposed: coordinate p of lane l of a panel is at p * (width of the panel) + l. All panels are
/// centre_panel wide but the last, which has whole vectors; lanes beyond the last centre hold zeros.
template <class T>
struct Centres {
  const T* packed;
  index_t k, d;

  [[nodiscard]] static index_t elements(index_t k, index_t d) { return round_up(k, width<T>) * d; }
  [[nodiscard]] const T* panel(index_t j) const { return packed + j * d; }
};

template <class T>
Centres<T> pack_centres(T* room, const T* c, index_t c_row, index_t k, index_t d) {
  const index_t padded = round_up(k, width<T>);
  for (index_t j = 0; j < padded; j += centre_panel<T>) {
    const index_t lanes = std::min(centre_panel<T>, padded - j);
    T* panel = room + j * d;
    for (index_t l = 0; l < lanes; ++l)
      for (index_t p = 0; p < d; ++p) panel[p * lanes + l] = j + l < k ? c[(j + l) * c_row + p] : T{0};
  }
  return {room, k, d};
}

// out[i, 0 .. ) for `points` points against one panel; `last` columns of its last vector are written.
template <class T, int vectors, int points>
GRADUS_INLINE void distance_tile(const T* x, index_t x_row, const T* c, index_t d, T* out, index_t out_row, index_t last) {
  Vec<T> sum[points][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < points; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sum[i][j] = Vec<T>(T{0});
  for (index_t p = 0; p < d; ++p, c += vectors * width<T>) {
    Vec<T> cp[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) cp[j] = load(c + j * width<T>);
#pragma GCC unroll 8
    for (int i = 0; i < points; ++i) {
      const Vec<T> xi(x[i * x_row + p]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) {
        const Vec<T> t = xi - cp[j];
        sum[i][j] = fma(t, t, sum[i][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < points; ++i) {
    T* row = out + i * out_row;
#pragma GCC unroll 4
    for (int j = 0; j + 1 < vectors; ++j) store(row + j * width<T>, sum[i][j]);
    if (last == width<T>) store(row + (vectors - 1) * width<T>, sum[i][vectors - 1]);
    else store_tail(row + (vectors - 1) * width<T>, sum[i][vectors - 1], last);
  }
}

template <class T, int vectors>
void distance_column(const T* x, index_t x_row, index_t n, const T* c, index_t d, T* out, index_t out_row, index_t last) {
  constexpr int points = tile_points * centre_vectors / vectors;
  index_t i = 0;
  for (; i + points <= n; i += points) distance_tile<T, vectors, points>(x + i * x_row, x_row, c, d, out + i * out_row, out_row, last);
  for (; i < n; ++i) distance_tile<T, vectors, 1>(x + i * x_row, x_row, c, d, out + i * out_row, out_row, last);
}

/// out[i, j] for n points and all centres; nothing is written beyond the last centre.
template <class T>
void distance_rows(const T* x, index_t x_row, index_t n, const Centres<T>& centres, T* out, index_t out_row) {
  for (index_t j = 0; j < centres.k; j += centre_panel<T>) {
    const index_t columns = centres.k - j;
    const T* c = centres.panel(j);
    if (columns > width<T>) distance_column<T, centre_vectors>(x, x_row, n, c, centres.d, out + j, out_row, std::min(columns - width<T>, width<T>));
    else distance_column<T, 1>(x, x_row, n, c, centres.d, out + j, out_row, columns);
  }
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
