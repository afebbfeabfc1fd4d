#include "engine/io/elements.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "engine/core/error.hpp"

namespace gradus::io {
namespace {

/// IEEE half to single precision; every half is a float.
float from_half(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16U, exponent = (half >> 10U) & 31U, fraction = half & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13U));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
  const float subnormal = static_cast<float>(fraction) * 0x1p-24F;
  return sign ? -subnormal : subnormal;
}

/// The upper half of a float.
std::uint32_t from_brain(std::uint16_t half) { return static_cast<std::uint32_t>(half) << 16U; }

template <class T>
T load(const char* from, bool swap) {
  char raw[sizeof(T)];
  std::memcpy(raw, from, sizeof(T));
  if (swap) std::reverse(raw, raw + sizeof(T));
  return std::bit_cast<T>(raw);
}

/// Calls `place(source_index)` for every element of the row-major result in order, when the source is column-major.
template <class F>
void for_each_fortran(const Shape& shape, index_t count, F&& place) {
  if (count == 0) return;  // the other sizes may then have a product beyond 64 bits
  Dims index = Dims::filled(shape.rank(), 0), stride = Dims::filled(shape.rank(), 1);
  for (int axis = 1; axis < shape.rank(); ++axis) stride[axis] = stride[axis - 1] * shape[axis - 1];
  index_t source = 0;
  for (index_t i = 0; i < count; ++i) {
    place(source);
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      source += stride[axis];
      if (++index[axis] < shape[axis]) break;
      source -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

/// One conversion: where from, where to, in which order.
struct Conversion {
  std::string_view data;
  bool swap;
  std::byte* out;
  const Shape* column_major;

  /// Converts every element from its type in the file, Stored, by `to`.
  template <class Stored, class Convert>
  void run(Convert&& to) const {
    std::byte* next = out;
    const auto place = [&](index_t source) {
      const auto value = to(load<Stored>(data.data() + static_cast<std::size_t>(source) * sizeof(Stored), swap));
      std::memcpy(next, &value, sizeof(value));
      next += sizeof(value);
    };
    const auto count = static_cast<index_t>(data.size() / sizeof(Stored));
    if (column_major && column_major->rank() > 1) return for_each_fortran(*column_major, count, place);
    for (index_t i = 0; i < count; ++i) place(i);
  }
};

}  // namespace

bool stored_size(const Shape& shape, std::size_t size, std::size_t& bytes) noexcept {
  bytes = size;
  const bool none = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (const index_t along : shape)
    if (!none && __builtin_mul_overflow(bytes, static_cast<std::size_t>(along), &bytes)) return false;
  if (none) bytes = 0;
  return true;
}

void convert_elements(std::string_view data, const Element& element, std::byte* out, const std::string& where, const Shape* column_major) {
  const Conversion conversion{data, element.swap, out, column_major};
  const auto same = [](auto value) { return value; };
  const auto widen = [](auto value) { return static_cast<index_t>(value); };
  const auto truth = [&](std::uint8_t value) {
    if (value > 1) throw IoError(where, cat("holds the byte ", int{value}, " among its bools"));
    return value;
  };
  switch (element.kind) {
    case ElementKind::boolean: return conversion.run<std::uint8_t>(truth);
    case ElementKind::floating:
      if (element.size == 8) return conversion.run<std::uint64_t>(same);  // bits: a NaN keeps its payload
      if (element.size == 4) return conversion.run<std::uint32_t>(same);
      return conversion.run<std::uint16_t>(from_half);
    case ElementKind::brain_floating: return conversion.run<std::uint16_t>(from_brain);
    case ElementKind::natural:
      if (element.size == 4) return conversion.run<std::uint32_t>(widen);
      if (element.size == 2) return conversion.run<std::uint16_t>(widen);
      return conversion.run<std::uint8_t>(widen);
    case ElementKind::integer: break;
  }
  if (element.size == 8) return conversion.run<std::int64_t>(same);
  if (element.size == 4) return conversion.run<std::int32_t>(widen);
  if (element.size == 2) return conversion.run<std::int16_t>(widen);
  conversion.run<std::int8_t>(widen);
}

}  // namespace gradus::io
