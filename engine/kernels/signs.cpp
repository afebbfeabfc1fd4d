#include "engine/kernels/signs.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

constexpr index_t values = 256, places = 8, rows_at_once = 1024;  // whose sums stay in the nearest cache

index_t bytes_of(index_t d) { return (d + places - 1) / places; }

template <class T>
void tabulate(const T* w, index_t d, index_t heads, T* table) {
  for (index_t byte = 0; byte < bytes_of(d); ++byte)
    for (index_t h = 0; h < heads; ++h) {
      T weight[places];
      for (index_t i = 0; i < places; ++i) weight[i] = byte * places + i < d ? w[h * d + byte * places + i] : T{0};
      // Sums of the lower and the upper four places, then all pairs.
      T half[2][16];
      for (index_t part = 0; part < 2; ++part)
        for (index_t value = 0; value < 16; ++value) {
          T sum{0};
          for (index_t i = 0; i < 4; ++i) sum += (value >> i & 1) != 0 ? weight[4 * part + i] : -weight[4 * part + i];
          half[part][value] = sum;
        }
      for (index_t value = 0; value < values; ++value) table[(byte * values + value) * heads + h] = half[0][value & 15] + half[1][value >> 4];
    }
}

// Byte after byte over a block of rows, so that one table at a time is in use. `heads` is a constant where it is small.
template <index_t fixed_heads, class T, class F>
[[gnu::always_inline]] inline void for_places(const SignRows& x, index_t heads, F&& f) {
  const index_t count = fixed_heads > 0 ? fixed_heads : heads;
  for (index_t first = 0; first < x.rows; first += rows_at_once) {
    const index_t rows = x.rows - first < rows_at_once ? x.rows - first : rows_at_once;
    for (index_t byte = 0; byte < bytes_of(x.d); ++byte) {
      const std::uint8_t* bits = x.bits + first * x.row_bytes + byte;
      for (index_t r = 0; r < rows; ++r, bits += x.row_bytes) f((byte * values + *bits) * count, (first + r) * count, count);
    }
  }
}
template <class T, class F>
void for_places(const SignRows& x, index_t heads, F&& f) {
  if (heads == 1) for_places<1, T>(x, heads, f);
  else if (heads == 2) for_places<2, T>(x, heads, f);
  else for_places<0, T>(x, heads, f);
}

template <class T>
void sums(const SignRows& x, const T* table, index_t heads, T* y) {
  for (index_t i = 0; i < x.rows * heads; ++i) y[i] = T{0};
  for_places<T>(x, heads, [&](index_t at, index_t row, index_t count) {
    for (index_t h = 0; h < count; ++h) y[row + h] += table[at + h];
  });
}

template <class T>
void collect(const SignRows& x, const T* g, index_t heads, T* table) {
  for_places<T>(x, heads, [&](index_t at, index_t row, index_t count) {
    for (index_t h = 0; h < count; ++h) table[at + h] += g[row + h];
  });
}

template <class T>
void fold(const T* table, index_t d, index_t heads, T* gw) {
  for (index_t i = 0; i < d; ++i) {
    const T* place = table + i / places * values * heads;
    for (index_t h = 0; h < heads; ++h) {
      T set{0}, unset{0};
      for (index_t value = 0; value < values; ++value) ((value >> i % places & 1) != 0 ? set : unset) += place[value * heads + h];
      gw[h * d + i] = set - unset;
    }
  }
}

template <class T>
constexpr SignKernels<T> table() {
  return {tabulate<T>, sums<T>, collect<T>, fold<T>};
}

}  // namespace

extern const SignKernels<float> signs_f32;
extern const SignKernels<double> signs_f64;
const SignKernels<float> signs_f32 = table<float>();
const SignKernels<double> signs_f64 = table<double>();

}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
