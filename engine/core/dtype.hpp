#pragma once
// The four element types. f32 trains, f64 checks, i64 indexes, bool masks.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "engine/core/error.hpp"

namespace gradus {

using index_t = std::int64_t;

/// Element type of a tensor. `boolean` is stored as one byte, 0 or 1.
enum class DType : std::uint8_t { f32, f64, i64, boolean };

/// Bytes of one element.
[[nodiscard]] constexpr index_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32: return 4;
    case DType::f64: return 8;
    case DType::i64: return 8;
    case DType::boolean: return 1;
  }
  return 0;
}

/// "f32", "f64", "i64" or "bool".
[[nodiscard]] constexpr const char* name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::i64: return "i64";
    case DType::boolean: return "bool";
  }
  return "?";
}

[[nodiscard]] constexpr bool is_floating(DType dtype) noexcept { return dtype == DType::f32 || dtype == DType::f64; }

/// The DType of a C++ element type.
template <class T>
[[nodiscard]] constexpr DType dtype_of() noexcept {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  else {
    static_assert(std::is_same_v<T, bool>, "element types are float, double, int64_t and bool");
    return DType::boolean;
  }
}

/// Calls `f(T{})` with the C++ type of `dtype`.
template <class F>
decltype(auto) visit_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    case DType::i64: return f(std::int64_t{});
    case DType::boolean: break;
  }
  return f(bool{});
}

/// Calls `f(T{})` with float or double; any other dtype is a DTypeError naming `where`.
template <class F>
decltype(auto) visit_floating(DType dtype, const char* where, F&& f) {
  if (dtype == DType::f32) return f(float{});
  if (dtype == DType::f64) return f(double{});
  throw DTypeError(where, cat("needs f32 or f64, got ", name_of(dtype)), "cast first");
}

}  // namespace gradus
