#pragma once
// NumPy's array files, versions 1 to 3: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/shape.hpp"

namespace gradus::io {

/// An array in row-major order and this machine's byte order.
struct NpyArray {
  Shape shape;
  DType dtype = DType::f64;
  std::vector<std::byte> bytes;  ///< byte_size(shape, dtype) of them
};

/// True when the bytes begin as an npy file does.
[[nodiscard]] bool is_npy(std::string_view bytes) noexcept;

/// Parses the bytes of an npy file; `where` names the source in errors. f4, f8, i8 and bool keep their type, f2 becomes
/// f32, and smaller integers become i64; either byte order; Fortran order is put in row-major order. Everything else, and any
/// size that does not match the header exactly, is an IoError, found before memory is asked for.
[[nodiscard]] NpyArray parse_npy(std::string_view file, const std::string& where);

/// Reads an npy file (gzipped or not); see parse_npy.
[[nodiscard]] NpyArray read_npy(const std::string& path);

/// The bytes of a version 1 npy file. `data` holds byte_size(shape, dtype) bytes in row-major order; otherwise ValueError.
[[nodiscard]] std::string format_npy(const Shape& shape, DType dtype, std::span<const std::byte> data);

}  // namespace gradus::io
