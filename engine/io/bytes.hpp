#pragma once
// Little-endian numbers in byte strings, on machines of either byte order.

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace gradus::io {

/// The number in the sizeof(T) bytes from `at` on, which must be there.
template <std::unsigned_integral T>
[[nodiscard]] T get_little(std::string_view bytes, std::size_t at) noexcept {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | static_cast<T>(T{static_cast<unsigned char>(bytes[at + i])} << (8 * i)));
  return value;
}

template <std::unsigned_integral T>
void put_little(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 255U);
}

}  // namespace gradus::io
