#include "engine/tensor/tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/tensor/strided.hpp"

namespace gradus {
namespace {

Shape nested_shape(const Nested& list) {
  Shape shape;
  for (const Nested* level = &list; level->is_list; level = &level->children.front()) {
    shape.push_back(static_cast<index_t>(level->children.size()));
    if (level->children.empty()) break;
  }
  return shape;
}

void flatten(const Nested& list, const Shape& shape, int depth, std::vector<double>& out) {
  const bool should_be_list = depth < shape.rank();
  if (list.is_list != should_be_list || (list.is_list && static_cast<index_t>(list.children.size()) != shape[depth]))
    throw ShapeError("tensor", cat("ragged list: expected ", shape, ", a part at depth ", depth, " differs"), "give every list of a level the same length");
  if (!list.is_list) out.push_back(list.value);
  for (const Nested& child : list.children) flatten(child, shape, depth + 1, out);
}

// NaN and infinite doubles have no integer to become; the cast would be undefined behaviour.
template <class T>
T convert_scalar(double value) {
  if constexpr (std::is_same_v<T, bool>) return value != 0;
  else if constexpr (std::is_same_v<T, std::int64_t>) {
    if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) throw ValueError("tensor", cat(value, " does not fit i64"), "use f64");
    return static_cast<std::int64_t>(value);
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace

Tensor Tensor::empty(const Shape& shape, DType dtype) {
  Tensor t;
  const index_t bytes = byte_size(shape, dtype);
  t.shape_ = shape;
  t.strides_ = contiguous_strides(shape);
  t.dtype_ = dtype;
  t.buffer_ = Buffer::allocate(static_cast<std::size_t>(bytes));
  return t;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype) {
  Tensor t = empty(shape, dtype);
  visit_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    std::fill_n(t.mutable_data<T>(), t.numel(), convert_scalar<T>(value));
  });
  return t;
}

Tensor Tensor::of(const Nested& values, DType dtype) {
  const Shape shape = nested_shape(values);
  std::vector<double> flat;
  flatten(values, shape, 0, flat);
  Tensor t = empty(shape, dtype);
  visit_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    std::transform(flat.begin(), flat.end(), t.mutable_data<T>(), convert_scalar<T>);
  });
  return t;
}

template <class T>
Tensor Tensor::from(std::span<const T> values, const Shape& shape) {
  if (static_cast<index_t>(values.size()) != gradus::numel(shape))
    throw ShapeError("tensor", cat(values.size(), " values do not fill ", shape), "the product of the sizes must be the number of values");
  Tensor t = empty(shape, dtype_of<T>());
  std::copy(values.begin(), values.end(), t.mutable_data<T>());
  return t;
}
template Tensor Tensor::from<float>(std::span<const float>, const Shape&);
template Tensor Tensor::from<double>(std::span<const double>, const Shape&);
template Tensor Tensor::from<std::int64_t>(std::span<const std::int64_t>, const Shape&);
template Tensor Tensor::from<bool>(std::span<const bool>, const Shape&);

Tensor Tensor::arange(index_t n, DType dtype) {
  Tensor t = empty({n}, dtype);
  visit_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    T* out = t.mutable_data<T>();
    for (index_t i = 0; i < n; ++i) out[i] = convert_scalar<T>(static_cast<double>(i));
  });
  return t;
}

Tensor Tensor::identity(index_t n, DType dtype) {
  Tensor t = zeros({n, n}, dtype);
  visit_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    T* out = t.mutable_data<T>();
    for (index_t i = 0; i < n; ++i) out[i * n + i] = T(1);
  });
  return t;
}

Tensor Tensor::view_of(const Buffer& buffer, const Shape& shape, const Strides& strides, index_t offset, DType dtype) {
  index_t low = offset, high = offset;
  for (int i = 0; i < shape.rank(); ++i) (strides[i] < 0 ? low : high) += checked_mul(std::max<index_t>(shape[i] - 1, 0), strides[i], shape);
  const bool any = gradus::numel(shape) > 0;
  if (any && (low < 0 || high >= static_cast<index_t>(buffer.bytes()) / size_of(dtype)))
    throw ShapeError("view", cat("a view of shape ", shape, " with strides ", strides, " leaves its buffer"), "");
  Tensor t;
  t.buffer_ = buffer;
  t.shape_ = shape;
  t.strides_ = strides;
  t.offset_ = any ? offset : 0;
  t.dtype_ = dtype;
  return t;
}

index_t Tensor::numel() const noexcept {
  index_t count = 1;  // checked when the shape was made
  for (index_t size : shape_) count *= size;
  return count;
}

bool Tensor::is_contiguous() const noexcept {
  index_t expected = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] == 0) return true;
    if (shape_[i] != 1 && strides_[i] != expected) return false;
    expected *= shape_[i];
  }
  return true;
}

bool Tensor::overlaps_itself() const noexcept {
  for (int i = 0; i < rank(); ++i)
    if (shape_[i] > 1 && strides_[i] == 0) return true;
  return false;
}

void Tensor::refuse_dtype(DType wanted) const {
  if (!defined()) throw ValueError("tensor", "an undefined tensor has no data", "build it first");
  throw DTypeError("tensor", cat("data of a ", name_of(dtype_), " tensor read as ", name_of(wanted)), "cast first");
}

void Tensor::require_writable() const {
  if (overlaps_itself())
    throw ValueError("tensor", cat("writing to an expanded view of shape ", shape_, " would change several elements at once"), "make it contiguous first");
  buffer_.bump_version();
}

index_t Tensor::element_offset(std::initializer_list<index_t> indices) const {
  if (static_cast<int>(indices.size()) != rank()) throw IndexError("at", cat(indices.size(), " indices for shape ", shape_), cat("give ", rank()));
  index_t position = 0;
  int axis = 0;
  for (index_t i : indices) {
    if (i < -shape_[axis] || i >= shape_[axis])
      throw IndexError("at", cat("index ", i, " is out of range for axis ", axis, " of shape ", shape_),
                       cat("indices go from ", -shape_[axis], " to ", shape_[axis] - 1));
    position += (i < 0 ? i + shape_[axis] : i) * strides_[axis];
    ++axis;
  }
  return position;
}

double Tensor::at(std::initializer_list<index_t> indices) const {
  const index_t position = element_offset(indices);
  return visit_dtype(dtype_, [&](auto tag) { return static_cast<double>(data<decltype(tag)>()[position]); });
}

void Tensor::set(std::initializer_list<index_t> indices, double value) {
  const index_t position = element_offset(indices);
  visit_dtype(dtype_, [&](auto tag) {
    using T = decltype(tag);
    const T converted = convert_scalar<T>(value);
    mutable_data<T>()[position] = converted;
  });
}

double Tensor::item() const {
  if (!defined() || numel() != 1) throw ShapeError("item", cat("a tensor of shape ", shape_, " is not one number"), "reduce it first");
  return visit_dtype(dtype_, [&](auto tag) { return static_cast<double>(*data<decltype(tag)>()); });
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  std::vector<T> values;
  values.reserve(static_cast<std::size_t>(numel()));
  const T* base = data<T>();
  for_each_offset(*this, [&](index_t at) { values.push_back(base[at]); });
  return values;
}
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<std::int64_t> Tensor::to_vector<std::int64_t>() const;
template std::vector<bool> Tensor::to_vector<bool>() const;

Tensor Tensor::detached() const {
  Tensor t = *this;
  t.handle_ = {};
  return t;
}

}  // namespace gradus
