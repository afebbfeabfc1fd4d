#pragma once
// Finding the least of a row of distances. Only the distance kernels include it; internal linkage, see simd.hpp.

#include <algorithm>
#include <limits>

#include "engine/kernels/distance_tile.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

/// Least distance of a row and its lowest index; of a row with NaN the first NaN.
template <class T>
struct Least {
  T distance;
  index_t index;
};

template <class T>
Vec<UInt<T>> lane_numbers() {
  alignas(64) UInt<T> lanes[width<T>];
  for (index_t l = 0; l < width<T>; ++l) lanes[l] = static_cast<UInt<T>>(l);
  return Vec<UInt<T>>::load_aligned(lanes);
}

template <class E>
GRADUS_INLINE E least_lane(const Vec<E>& v) {
  alignas(64) E lanes[Vec<E>::size];
  v.store_aligned(lanes);
  for (std::size_t half = Vec<E>::size / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lanes[l] = lanes[l + half] < lanes[l] ? lanes[l + half] : lanes[l];
  return lanes[0];
}

/// `row` is padded with +inf to a multiple of the vector width. Indices travel as bit patterns in vectors of T.
template <class T>
GRADUS_INLINE Least<T> find_least(const T* row, index_t padded) {
  using U = UInt<T>;
  Vec<T> least = load(row);
  Vec<U> at = lane_numbers<T>();
  Vec<T> index = from_bits<T>(at);
  Mask<T> nan = is_nan(least);
  for (index_t j = width<T>; j < padded; j += width<T>) {
    const Vec<T> v = load(row + j);
    at = at + Vec<U>(static_cast<U>(width<T>));
    const Mask<T> less = v < least;
    index = select(less, from_bits<T>(at), index);
    least = select(less, v, least);
    nan = nan | is_nan(v);
  }
  if (any(nan)) {
    index_t first = 0;
    while (row[first] == row[first]) ++first;
    return {row[first], first};
  }
  const T distance = least_lane(least);
  const Vec<T> candidates = select(least == Vec<T>(distance), index, from_bits<T>(Vec<U>(std::numeric_limits<U>::max())));
  return {distance, static_cast<index_t>(least_lane(to_bits(candidates)))};
}

/// A few points side by side in the lanes of vectors, and for each its nearest centre so far: no row of distances is ever laid out.
template <class T>
class NearestLanes {
 public:
  static constexpr int vectors = two_panels ? 2 * centre_vectors : centre_vectors;
  static constexpr index_t lanes = vectors * width<T>;

  /// Elements of the room that points of d coordinates need.
  [[nodiscard]] static index_t elements(index_t d) { return lanes * d; }
  NearestLanes(T* room, const T* centres, index_t c_row, index_t k, index_t d) : room_(room), c_(centres), c_row_(c_row), k_(k), d_(d) {}

  /// Of up to `lanes` points: least and second least distance, the lowest index of the least; all of no meaning where odd().
  void find(const T* x, index_t x_row, index_t count) {
    for (index_t l = 0; l < lanes; l += centre_panel<T>)
      pack_panel(room_ + l * d_, centre_panel<T>, x + l * x_row, index_t{1}, x_row, d_, std::clamp<index_t>(count - l, 0, centre_panel<T>));
    std::fill_n(least, lanes, std::numeric_limits<T>::infinity());
    std::fill_n(second, lanes, std::numeric_limits<T>::infinity());
    std::fill_n(nan_, lanes, T{0});
    std::fill_n(index, lanes, UInt<T>{0});
    constexpr index_t centres = tile_points_of<vectors>;
    for (index_t j = 0; j < k_; j += centres) tile_of(std::min(centres, k_ - j), std::make_integer_sequence<int, centres>())(*this, j);
  }
  /// True where a distance is NaN or all are infinite.
  [[nodiscard]] bool odd(index_t lane) const { return nan_[lane] != T{0} || !(least[lane] < std::numeric_limits<T>::infinity()); }

  alignas(64) T least[lanes];
  alignas(64) T second[lanes];
  alignas(64) UInt<T> index[lanes];

 private:
  template <int centres>
  static void take(NearestLanes& self, index_t j) {
    distance_tile<T, vectors, centres>(self.c_ + j * self.c_row_, self.c_row_, self.room_, centre_panel<T> * self.d_, self.d_,
                                       [&](int i, const Vec<T>(&distance)[vectors]) GRADUS_INLINE_LAMBDA {
                                         const Vec<T> at = from_bits<T>(Vec<UInt<T>>(static_cast<UInt<T>>(j + i)));
#pragma GCC unroll 4
                                         for (int v = 0; v < vectors; ++v) {
                                           const index_t lane = v * width<T>;
                                           const Vec<T> before = load(self.least + lane);
                                           const Mask<T> less = distance[v] < before;
                                           auto* indices = reinterpret_cast<T*>(self.index + lane);
                                           store(indices, select(less, at, load(indices)));
                                           store(self.second + lane, less_of(load(self.second + lane), greater_of(before, distance[v])));
                                           store(self.least + lane, less_of(distance[v], before));
                                           store(self.nan_ + lane, select(is_nan(distance[v]), Vec<T>(T{1}), load(self.nan_ + lane)));
                                         }
                                       });
  }
  template <int... i>
  static auto tile_of(index_t centres, std::integer_sequence<int, i...>) {
    using Function = void (*)(NearestLanes&, index_t);
    constexpr Function table[] = {&take<i + 1>...};
    return table[centres - 1];
  }

  T* room_;
  const T* c_;
  index_t c_row_, k_, d_;
  alignas(64) T nan_[lanes];
};

/// The row of distances of one point, padded with +inf to whole vectors as find_least wants it.
template <class T>
const T* distance_row(const T* x, const Centres<T>& centres, T* room) {
  std::fill(room + centres.k, room + round_up(centres.k, width<T>), std::numeric_limits<T>::infinity());
  distance_rows(x, index_t{0}, index_t{1}, centres, room, index_t{0});
  return room;
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
