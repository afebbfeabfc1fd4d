#include "engine/kernels/layout.hpp"

#include "engine/kernels/simd.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

template <class T>
using Register = typename Vec<T>::register_type;

// Element i of the first or second half of a and b interleaved in pieces of `piece` elements.
template <index_t piece, bool second, class T>
constexpr int interleaved(index_t i) {
  const index_t pair = i / (2 * piece) * (2 * piece), within = i % piece;
  const bool from_b = i / piece % 2 == 1;
  return static_cast<int>(pair + (second ? piece : 0) + within + (from_b ? width<T> : 0));
}
template <class T, index_t piece, bool second, std::size_t... i>
GRADUS_INLINE Vec<T> interleave(const Vec<T>& a, const Vec<T>& b, std::index_sequence<i...>) {
  const Register<T> x = a, y = b;
  return Vec<T>((Register<T>)__builtin_shufflevector(x, y, interleaved<piece, second, T>(static_cast<index_t>(i))...));
}

// Swaps blocks of `piece` elements off the diagonal of every 2 x 2 blocks; all sizes together transpose.
template <class T, index_t piece>
GRADUS_INLINE void swap_blocks(Vec<T> (&v)[width<T>]) {
  constexpr auto all = std::make_index_sequence<width<T>>();
#pragma GCC unroll 16
  for (index_t i = 0; i < width<T>; ++i) {
    if (i / piece % 2 == 1) continue;
    const Vec<T> a = v[i], b = v[i + piece];
    v[i] = interleave<T, piece, false>(a, b, all);
    v[i + piece] = interleave<T, piece, true>(a, b, all);
  }
  if constexpr (piece > 1) swap_blocks<T, piece / 2>(v);
}

template <class T>
GRADUS_INLINE void transpose_square(const T* x, index_t x_row, T* y, index_t y_row) {
  Vec<T> v[width<T>];
#pragma GCC unroll 16
  for (index_t i = 0; i < width<T>; ++i) v[i] = load(x + i * x_row);
  swap_blocks<T, width<T> / 2>(v);
#pragma GCC unroll 16
  for (index_t i = 0; i < width<T>; ++i) store(y + i * y_row, v[i]);
}

template <class T>
void transpose(const T* x, index_t x_row, index_t rows, index_t columns, T* y, index_t y_row) {
  const index_t whole_rows = rows - rows % width<T>, whole_columns = columns - columns % width<T>;
  for (index_t j = 0; j < whole_columns; j += width<T>)
    for (index_t i = 0; i < whole_rows; i += width<T>) transpose_square(x + i * x_row + j, x_row, y + j * y_row + i, y_row);
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) y[j * y_row + i] = x[i * x_row + j];
}

}  // namespace

extern const LayoutKernels<float> layout_f32;
extern const LayoutKernels<double> layout_f64;
const LayoutKernels<float> layout_f32{transpose<float>};
const LayoutKernels<double> layout_f64{transpose<double>};

}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
