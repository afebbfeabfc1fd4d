#pragma once
// Elements of array files: how they lie in the file and what they become in a tensor.

#include <cstddef>
#include <string>
#include <string_view>

#include "engine/core/shape.hpp"

namespace gradus::io {

enum class ElementKind : std::uint8_t { floating, brain_floating, integer, natural, boolean };

struct Element {
  ElementKind kind = ElementKind::floating;
  std::size_t size = 8;
  bool swap = false;  ///< of the other byte order than this machine

  /// Floats below 8 bytes become f32, integers i64.
  [[nodiscard]] DType dtype() const noexcept {
    if (kind == ElementKind::boolean) return DType::boolean;
    if (kind == ElementKind::integer || kind == ElementKind::natural) return DType::i64;
    return size == 8 ? DType::f64 : DType::f32;
  }
};

/// The bytes that a shape of elements of `size` bytes takes; false when they are beyond 64 bits. No product of sizes from a file
/// is to be trusted before this.
[[nodiscard]] bool stored_size(const Shape& shape, std::size_t size, std::size_t& bytes) noexcept;

/// Converts the data of a file, all of them, to values of element.dtype() at `out`, in row-major order. `column_major` is the shape
/// when the file has Fortran's order. A bool other than 0 and 1 is an IoError naming `where`. There are no naturals of 8 bytes.
void convert_elements(std::string_view data, const Element& element, std::byte* out, const std::string& where, const Shape* column_major = nullptr);

}  // namespace gradus::io
