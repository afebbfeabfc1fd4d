#pragma once
// Shapes: up to eight int64 sizes held inline, with checked arithmetic and the broadcasting rule.

#include <array>
#include <initializer_list>
#include <ostream>
#include <span>
#include <string>

#include "engine/core/dtype.hpp"

namespace gradus {

inline constexpr int max_rank = 8;

/// A short inline list of int64: a shape, strides, axes or indices.
class Dims {
 public:
  Dims() noexcept {}  // NOLINT(modernize-use-equals-default): entries past the rank are never read: zeroing them would be a third of the cost of a tiny op
  Dims(std::initializer_list<index_t> values);
  explicit Dims(std::span<const index_t> values);
  /// `rank` copies of `value`.
  [[nodiscard]] static Dims filled(int rank, index_t value);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] bool empty() const noexcept { return rank_ == 0; }
  [[nodiscard]] index_t operator[](int i) const noexcept { return values_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] index_t& operator[](int i) noexcept { return values_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const index_t* begin() const noexcept { return values_.data(); }
  [[nodiscard]] const index_t* end() const noexcept { return values_.data() + rank_; }
  [[nodiscard]] index_t back() const noexcept { return values_[static_cast<std::size_t>(rank_ - 1)]; }
  /// Appends; more than eight entries is a ShapeError.
  void push_back(index_t value);
  void insert(int at, index_t value);
  void erase(int at);
  [[nodiscard]] friend bool operator==(const Dims& a, const Dims& b) noexcept {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a[i] != b[i]) return false;
    return true;
  }

 private:
  std::array<index_t, max_rank> values_;
  int rank_ = 0;
};

using Shape = Dims;
using Strides = Dims;

/// "(3, 4)"; a one-element shape prints as "(3,)", rank 0 as "()".
[[nodiscard]] std::string to_string(const Dims& dims);
std::ostream& operator<<(std::ostream& out, const Dims& dims);

/// a * b, or a ShapeError naming `shape` when the product leaves int64.
[[nodiscard]] index_t checked_mul(index_t a, index_t b, const Shape& shape);
/// Number of elements; negative sizes and overflow are ShapeErrors that name the shape.
[[nodiscard]] index_t numel(const Shape& shape);
/// numel(shape) * size_of(dtype), checked.
[[nodiscard]] index_t byte_size(const Shape& shape, DType dtype);
/// Row-major strides in elements.
[[nodiscard]] Strides contiguous_strides(const Shape& shape);
/// The shape both broadcast to (numpy's rule: sizes aligned from the end, 1 stretches); otherwise a ShapeError naming `where`.
[[nodiscard]] Shape broadcast_shapes(const Shape& a, const Shape& b, const char* where);
/// Maps -rank..rank-1 to 0..rank-1; otherwise an IndexError naming `where`.
[[nodiscard]] int normalize_axis(index_t axis, int rank, const char* where);
/// Normalises and sorts axes; an empty list means all of them, a repeated one is an IndexError.
[[nodiscard]] Dims normalize_axes(const Dims& axes, int rank, const char* where);
/// The shape left after reducing the (normalised) axes, keeping them as 1 when `keep`.
[[nodiscard]] Shape reduced_shape(const Shape& shape, const Dims& axes, bool keep);

}  // namespace gradus
