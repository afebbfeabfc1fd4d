#pragma once
// Distances of a few points to a panel of centres, held in registers. Only the distance kernels include it; internal linkage, see
// simd.hpp.

#include <algorithm>
#include <utility>

#include "engine/kernels/loop.hpp"
#include "engine/kernels/pack.hpp"
#include "engine/kernels/tail.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

/// Columns of a full panel of centres, in vectors, and the points of a tile: few enough that accumulators, centres, the coordinate
/// and the difference fit the registers.
constexpr int centre_vectors = 2;
#if defined(GRADUS_ISA_AVX512) || defined(__aarch64__)
constexpr int tile_points = 8;
constexpr bool two_panels = true;  // whether a tile of fewer points covers two panels: each coordinate then serves twice as often
#else
constexpr int tile_points = 4;
constexpr bool two_panels = false;
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
  for (index_t j = 0; j < k; j += centre_panel<T>) {
    const index_t count = std::min(centre_panel<T>, k - j);
    pack_panel(room + j * d, round_up(count, width<T>), c + j * c_row, index_t{1}, c_row, d, count);
  }
  return {room, k, d};
}

/// Calls done(i, sums) for each of `points` points, with its distances to the centres of `vectors` vectors: of one panel, or of two
/// that lie `panel` elements apart.
template <class T, int vectors, int points, class Done>
GRADUS_INLINE void distance_tile(const T* x, index_t x_row, const T* c, index_t panel, index_t d, const Done& done) {
  constexpr int in_panel = vectors > centre_vectors ? centre_vectors : vectors;
  Vec<T> sum[points][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < points; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sum[i][j] = Vec<T>(T{0});
  // One pointer for three points, as in the micro-kernel of products.
  constexpr int bases = (points + 2) / 3;
  const T* at[bases];
#pragma GCC unroll 8
  for (int g = 0; g < bases; ++g) at[g] = x + 3 * g * x_row;
  for (index_t p = 0; p < d; ++p, c += in_panel * width<T>) {
    Vec<T> cp[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) cp[j] = load(c + j / in_panel * panel + j % in_panel * width<T>);
#pragma GCC unroll 16
    for (int i = 0; i < points; ++i) {
      const Vec<T> xi(at[i / 3][(i % 3) * x_row]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) {
        const Vec<T> t = cp[j] - xi;
        sum[i][j] = fma(t, t, sum[i][j]);
      }
    }
#pragma GCC unroll 8
    for (int g = 0; g < bases; ++g) ++at[g];
  }
#pragma GCC unroll 16
  for (int i = 0; i < points; ++i) done(i, sum[i]);
}

/// Points of a tile over so many vectors.
template <int vectors>
constexpr int tile_points_of = vectors > centre_vectors ? 6 : tile_points* centre_vectors / vectors;

// out[i, 0 ..) for `points` points; `last` columns of the last vector are written.
template <class T, int vectors, int points>
void store_tile(const T* x, index_t x_row, const T* c, index_t panel, index_t d, T* out, index_t out_row, index_t last) {
  distance_tile<T, vectors, points>(x, x_row, c, panel, d, [&](int i, const Vec<T>(&sum)[vectors]) GRADUS_INLINE_LAMBDA {
    T* row = out + i * out_row;
#pragma GCC unroll 4
    for (int j = 0; j + 1 < vectors; ++j) store(row + j * width<T>, sum[j]);
    if (last == width<T>) store(row + (vectors - 1) * width<T>, sum[vectors - 1]);
    else store_tail(row + (vectors - 1) * width<T>, sum[vectors - 1], last);
  });
}

template <class T, int vectors, int... i>
constexpr auto store_tile_of(index_t points, std::integer_sequence<int, i...>) {
  using Function = void (*)(const T*, index_t, const T*, index_t, index_t, T*, index_t, index_t);
  constexpr Function table[] = {&store_tile<T, vectors, i + 1>...};
  return table[points - 1];
}

template <class T, int vectors>
void distance_column(const T* x, index_t x_row, index_t n, const T* c, index_t d, T* out, index_t out_row, index_t last) {
  constexpr index_t points = tile_points_of<vectors>;
  for (index_t i = 0; i < n; i += points) {
    const auto tile = store_tile_of<T, vectors>(std::min(points, n - i), std::make_integer_sequence<int, points>());
    tile(x + i * x_row, x_row, c, centre_panel<T> * d, d, out + i * out_row, out_row, last);
  }
}

/// out[i, j] for n points and all centres; nothing is written beyond the last centre.
template <class T>
void distance_rows(const T* x, index_t x_row, index_t n, const Centres<T>& centres, T* out, index_t out_row) {
  index_t j = 0;
  if constexpr (two_panels)
    for (; j + 2 * centre_panel<T> <= centres.k; j += 2 * centre_panel<T>)
      distance_column<T, 2 * centre_vectors>(x, x_row, n, centres.panel(j), centres.d, out + j, out_row, width<T>);
  for (; j < centres.k; j += centre_panel<T>) {
    const index_t columns = centres.k - j;
    const T* c = centres.panel(j);
    if (columns > width<T>) distance_column<T, centre_vectors>(x, x_row, n, c, centres.d, out + j, out_row, std::min(columns - width<T>, width<T>));
    else distance_column<T, 1>(x, x_row, n, c, centres.d, out + j, out_row, columns);
  }
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
