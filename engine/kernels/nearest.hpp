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

/// Distances of a few points at a time to all centres, in rows that find_least can read.
template <class T>
class DistanceRows {
 public:
  DistanceRows(T* room, const Centres<T>& centres) : rows_(room), centres_(centres) {
    std::fill_n(rows_, elements(centres.k), std::numeric_limits<T>::infinity());
  }
  /// Of the room that it needs.
  [[nodiscard]] static index_t elements(index_t k) { return points(k) * row_length(k); }

  /// Calls body(i, row) for the points [begin, end) in order.
  template <class Body>
  GRADUS_INLINE void for_each(const T* x, index_t x_row, index_t begin, index_t end, const Body& body) {
    const index_t most = points(centres_.k), length = row_length(centres_.k);
    for (index_t i = begin; i < end; i += most) {
      const index_t count = std::min(most, end - i);
      distance_rows(x + i * x_row, x_row, count, centres_, rows_, length);
      for (index_t r = 0; r < count; ++r) body(i + r, rows_ + r * length);
    }
  }
  [[nodiscard]] index_t row_length() const { return row_length(centres_.k); }

 private:
  [[nodiscard]] static index_t row_length(index_t k) { return round_up(k, width<T>); }
  // So many that the rows stay in the first-level cache.
  [[nodiscard]] static index_t points(index_t k) { return std::clamp<index_t>(4096 / row_length(k), 1, 8) * tile_points; }

  T* rows_;
  const Centres<T>& centres_;
};

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
