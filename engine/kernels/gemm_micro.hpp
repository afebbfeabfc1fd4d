#pragma once
// The innermost loop of the matrix product: one tile of C held in registers. Only gemm.cpp includes it; internal linkage, see simd.hpp.

#include <utility>

#include "engine/kernels/tail.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

#if defined(GRADUS_ISA_AVX512) || defined(__aarch64__)
constexpr int registers = 32;
#else
constexpr int registers = 16;
#endif

/// Columns of a full panel of B, in vectors, and rows of a tile over `vectors` of them: as many accumulators as leave registers for
/// the vectors of B and one element of A. At least 8 are needed to keep two fma units with 4 cycles of latency busy.
constexpr int panel_vectors = 2;
template <int vectors>
constexpr int tile_rows = registers == 32 ? 12 : 12 / vectors;
/// Rows of a panel of packed A, which serves wide and narrow panels of B alike.
constexpr int panel_rows = tile_rows<panel_vectors>;
template <class T>
constexpr index_t panel_width = panel_vectors* width<T>;

/// A tile of C and its operands. B is read in whole vectors: its rows must be readable up to a multiple of the vector width.
template <class T>
struct Tile {
  index_t k;
  const T* a;
  index_t a_row, a_col;  // not used when A is packed: element (i, p) is at p * rows + i
  const T* b;
  index_t b_row;
  T* c;
  index_t c_row;
  index_t last;   // columns in the last vector
  bool load;      // start from C
  const T* bias;  // else from these, one a column, or from 0 when null
};

template <class T, int vectors>
GRADUS_INLINE void load_row(Vec<T> (&r)[vectors], const T* c, index_t last) {
#pragma GCC unroll 4
  for (int j = 0; j < vectors; ++j) r[j] = j + 1 < vectors || last == width<T> ? load(c + j * width<T>) : load_partial(c + j * width<T>, last, T{0});
}

template <class T, int vectors>
GRADUS_INLINE void store_row(T* c, const Vec<T> (&r)[vectors], index_t last) {
#pragma GCC unroll 4
  for (int j = 0; j + 1 < vectors; ++j) store(c + j * width<T>, r[j]);
  T* end = c + (vectors - 1) * width<T>;
  if (last == width<T>) store(end, r[vectors - 1]);
  else store_tail(end, r[vectors - 1], last);
}

template <class T, int vectors, int rows, bool packed>
void micro(const Tile<T>& t) {
  Vec<T> r[rows][vectors];
#pragma GCC unroll 32
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) r[i][j] = Vec<T>(T{0});
    if (t.load) load_row<T, vectors>(r[i], t.c + i * t.c_row, t.last);
    else if (t.bias != nullptr) load_row<T, vectors>(r[i], t.bias, t.last);
  }
  // One pointer for three rows: an address is a base plus 0, 1 or 2 strides, and a pointer a row would not fit the registers.
  const index_t a_row = packed ? 1 : t.a_row, a_col = packed ? rows : t.a_col;
  constexpr int bases = (rows + 2) / 3;
  const T* a[bases];
#pragma GCC unroll 8
  for (int g = 0; g < bases; ++g) a[g] = t.a + 3 * g * a_row;
  const T* b = t.b;
  for (index_t p = 0; p < t.k; ++p) {
    Vec<T> bp[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) bp[j] = load(b + j * width<T>);
#pragma GCC unroll 32
    for (int i = 0; i < rows; ++i) {
      const Vec<T> ai(a[i / 3][(i % 3) * a_row]);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) r[i][j] = fma(ai, bp[j], r[i][j]);
    }
#pragma GCC unroll 8
    for (int g = 0; g < bases; ++g) a[g] += a_col;
    b += t.b_row;
  }
#pragma GCC unroll 32
  for (int i = 0; i < rows; ++i) store_row<T, vectors>(t.c + i * t.c_row, r[i], t.last);
}

template <class T, int vectors, bool packed, int... i>
constexpr auto micro_for_rows(index_t rows, std::integer_sequence<int, i...>) {
  using Function = void (*)(const Tile<T>&);
  constexpr Function table[] = {&micro<T, vectors, i + 1, packed>...};
  return table[rows - 1];
}

/// Computes a tile of `rows` by `vectors` vectors; rows is from 1 to tile_rows<vectors>, or to panel_rows when A is packed.
template <class T, int vectors, bool packed>
GRADUS_INLINE void run_tile(const Tile<T>& t, index_t rows) {
  constexpr int most = packed ? panel_rows : tile_rows<vectors>;
  micro_for_rows<T, vectors, packed>(rows, std::make_integer_sequence<int, most>())(t);
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
