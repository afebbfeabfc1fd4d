#pragma once
// Tensor: a small value that points at a shared buffer with a shape, strides and a dtype. Copies and views share storage.

#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "engine/core/memory.hpp"
#include "engine/core/shape.hpp"

namespace gradus {

class TapeState;

/// Where a tensor sits on a tape: value `id` of the tape's `epoch`. A default one is on no tape.
struct TapeHandle {
  TapeState* tape = nullptr;
  std::int32_t id = -1;
  std::uint32_t epoch = 0;
};

/// Nested braces of numbers: Nested{{1, 2}, {3, 4}} is a 2 x 2 list.
struct Nested {
  template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
  Nested(T number) : value(static_cast<double>(number)) {}
  Nested(std::initializer_list<Nested> list) : children(list), is_list(true) {}
  double value = 0;
  std::vector<Nested> children;
  bool is_list = false;
};

class Tensor {
 public:
  /// No tensor at all; `defined()` is false.
  Tensor() noexcept {}  // NOLINT(modernize-use-equals-default): written out, or Tensor() would zero every unused entry of shape and strides first
  /// Storage of the shape with unspecified contents.
  [[nodiscard]] static Tensor empty(const Shape& shape, DType dtype);
  [[nodiscard]] static Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
  [[nodiscard]] static Tensor zeros(const Shape& shape, DType dtype = DType::f32) { return full(shape, 0, dtype); }
  [[nodiscard]] static Tensor ones(const Shape& shape, DType dtype = DType::f32) { return full(shape, 1, dtype); }
  /// Rank 0.
  [[nodiscard]] static Tensor scalar(double value, DType dtype = DType::f32) { return full({}, value, dtype); }
  /// From nested lists of equal lengths; a ragged list is a ShapeError that names the place.
  [[nodiscard]] static Tensor of(const Nested& values, DType dtype = DType::f32);
  /// A copy of `values` in row-major order; their count must be numel(shape).
  template <class T>
  [[nodiscard]] static Tensor from(std::span<const T> values, const Shape& shape);
  template <class T>
  [[nodiscard]] static Tensor from(const std::vector<T>& values, const Shape& shape) {
    return from(std::span<const T>(values), shape);
  }
  /// 0, 1, ..., n - 1.
  [[nodiscard]] static Tensor arange(index_t n, DType dtype = DType::i64);
  /// The n x n identity.
  [[nodiscard]] static Tensor identity(index_t n, DType dtype = DType::f32);
  /// A view on existing storage; every element must lie inside the buffer.
  [[nodiscard]] static Tensor view_of(const Buffer& buffer, const Shape& shape, const Strides& strides, index_t offset, DType dtype);

  [[nodiscard]] bool defined() const noexcept { return static_cast<bool>(buffer_); }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] const Strides& strides() const noexcept { return strides_; }
  [[nodiscard]] index_t offset() const noexcept { return offset_; }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] int rank() const noexcept { return shape_.rank(); }
  /// Size along an axis, which may be negative.
  [[nodiscard]] index_t size(index_t axis) const { return shape_[normalize_axis(axis, rank(), "size")]; }
  [[nodiscard]] index_t numel() const noexcept;
  [[nodiscard]] bool is_contiguous() const noexcept;
  /// True when two index tuples may name the same element (an expanded view).
  [[nodiscard]] bool overlaps_itself() const noexcept;
  [[nodiscard]] const Buffer& buffer() const noexcept { return buffer_; }

  /// The first element; strides() tells where the others are. A wrong T is a DTypeError.
  template <class T>
  [[nodiscard]] const T* data() const {
    require_dtype(dtype_of<T>());
    return reinterpret_cast<const T*>(buffer_.data()) + offset_;
  }
  /// The same for writing: counts as a write (version()) and refuses views that overlap themselves.
  template <class T>
  [[nodiscard]] T* mutable_data() {
    require_dtype(dtype_of<T>());
    require_writable();
    return reinterpret_cast<T*>(buffer_.data()) + offset_;
  }
  /// The first byte, whatever the dtype.
  [[nodiscard]] const std::byte* raw() const noexcept { return buffer_.data() + offset_ * size_of(dtype_); }
  /// Writes through any view of the same storage so far.
  [[nodiscard]] std::uint32_t version() const noexcept { return buffer_.version(); }

  /// One element as a number; negative indices count from the end, anything outside is an IndexError.
  [[nodiscard]] double at(std::initializer_list<index_t> indices) const;
  void set(std::initializer_list<index_t> indices, double value);
  /// The number in a one-element tensor. Any other count is a ShapeError.
  [[nodiscard]] double item() const;
  /// A row-major copy of all elements; T must be the dtype's type.
  template <class T>
  [[nodiscard]] std::vector<T> to_vector() const;

  [[nodiscard]] const TapeHandle& handle() const noexcept { return handle_; }
  [[nodiscard]] bool on_tape() const noexcept { return handle_.tape != nullptr; }
  /// The same data off any tape.
  [[nodiscard]] Tensor detached() const;
  void set_handle(const TapeHandle& handle) noexcept { handle_ = handle; }
  /// Forgets the data, keeps shape and dtype: what a tape remembers of a value it need not save.
  void drop_data() noexcept { buffer_ = Buffer(); }
  /// Shape and dtype of another tensor, without its data.
  void take_metadata(const Tensor& other) noexcept {
    shape_ = other.shape_;
    strides_ = other.strides_;
    dtype_ = other.dtype_;
  }

 private:
  void require_dtype(DType wanted) const {
    if (!defined() || dtype_ != wanted) refuse_dtype(wanted);
  }
  [[noreturn]] void refuse_dtype(DType wanted) const;
  void require_writable() const;
  [[nodiscard]] index_t element_offset(std::initializer_list<index_t> indices) const;

  Buffer buffer_;
  index_t offset_ = 0;  // in elements
  Shape shape_;
  Strides strides_;  // in elements
  TapeHandle handle_;
  DType dtype_ = DType::f32;
};

/// Same shape, dtype and numbers. NaNs are equal to NaNs when `nan_equal`.
[[nodiscard]] bool equal(const Tensor& a, const Tensor& b, bool nan_equal = false);
/// Same shape, dtype and bits, so that -0 differs from 0 and NaNs compare by pattern.
[[nodiscard]] bool bit_equal(const Tensor& a, const Tensor& b);
/// |a - b| <= absolute + relative * |b| everywhere; shapes must agree. NaN is close to nothing, inf only to itself.
[[nodiscard]] bool all_close(const Tensor& a, const Tensor& b, double relative = 1e-5, double absolute = 1e-8);
/// max |a - b|; NaN if any difference is. Empty tensors give 0.
[[nodiscard]] double max_difference(const Tensor& a, const Tensor& b);

struct PrintOptions {
  int precision = 4;         ///< digits after the point
  index_t threshold = 1000;  ///< more elements than this are summarised
  index_t edge_items = 3;    ///< kept at each end when summarised
};
/// Like numpy: nested brackets, aligned columns, "..." in the middle of long axes.
[[nodiscard]] std::string to_string(const Tensor& tensor, const PrintOptions& options = {});
std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

}  // namespace gradus
