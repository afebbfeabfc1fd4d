#include "engine/core/shape.hpp"

#include <algorithm>

namespace gradus {

Dims::Dims(std::initializer_list<index_t> values) : Dims(std::span<const index_t>(values.begin(), values.size())) {}

Dims::Dims(std::span<const index_t> values) {
  for (index_t v : values) push_back(v);
}

Dims Dims::filled(int rank, index_t value) {
  Dims result;
  for (int i = 0; i < rank; ++i) result.push_back(value);
  return result;
}

void Dims::push_back(index_t value) {
  if (rank_ == max_rank) throw ShapeError("shape", cat("rank above ", max_rank, ": ", *this, " and one more"), "reshape to fewer axes");
  values_[static_cast<std::size_t>(rank_++)] = value;
}

void Dims::insert(int at, index_t value) {
  push_back(value);
  std::rotate(values_.begin() + at, values_.begin() + rank_ - 1, values_.begin() + rank_);
}

void Dims::erase(int at) {
  std::copy(values_.begin() + at + 1, values_.begin() + rank_, values_.begin() + at);
  --rank_;
}

std::string to_string(const Dims& dims) {
  std::string text = "(";
  for (int i = 0; i < dims.rank(); ++i) text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + (dims.rank() == 1 ? ",)" : ")");
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) { return out << to_string(dims); }

index_t checked_mul(index_t a, index_t b, const Shape& shape) {
  index_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) throw ShapeError("shape", cat("size of ", shape, " does not fit 64 bits"), "use smaller sizes");
  return product;
}

index_t numel(const Shape& shape) {
  // A zero anywhere makes the whole empty, but the other sizes must still multiply without overflow only when none is zero.
  index_t count = 1;
  for (index_t size : shape) {
    if (size < 0) throw ShapeError("shape", cat("negative size in ", shape), "sizes are 0 or more");
    if (size == 0) count = 0;
  }
  if (count == 0) return 0;
  for (index_t size : shape) count = checked_mul(count, size, shape);
  return count;
}

index_t byte_size(const Shape& shape, DType dtype) { return checked_mul(numel(shape), size_of(dtype), shape); }

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Dims::filled(shape.rank(), 1);
  index_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    if (shape[i] > 1) step = checked_mul(step, shape[i], shape);
  }
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* where) {
  const int rank = std::max(a.rank(), b.rank());
  Shape result = Dims::filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const index_t x = i <= a.rank() ? a[a.rank() - i] : 1;
    const index_t y = i <= b.rank() ? b[b.rank() - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw ShapeError(where, cat("shapes ", a, " and ", b, " do not broadcast: sizes ", x, " and ", y, " at axis -", i), "sizes must match or be 1");
    result[rank - i] = x == 1 ? y : x;
  }
  return result;
}

int normalize_axis(index_t axis, int rank, const char* where) {
  if (axis < -rank || axis >= rank)
    throw IndexError(where, cat("axis ", axis, " is out of range for rank ", rank),
                     rank ? cat("axes go from ", -rank, " to ", rank - 1) : "a rank-0 tensor has no axes");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Dims normalize_axes(const Dims& axes, int rank, const char* where) {
  Dims result;
  if (axes.empty())
    for (int i = 0; i < rank; ++i) result.push_back(i);
  std::array<bool, max_rank> seen{};
  for (index_t axis : axes) {
    const int a = normalize_axis(axis, rank, where);
    if (seen[static_cast<std::size_t>(a)]) throw IndexError(where, cat("axis ", axis, " is named twice in ", axes), "name each axis once");
    seen[static_cast<std::size_t>(a)] = true;
  }
  if (!axes.empty())
    for (int i = 0; i < rank; ++i)
      if (seen[static_cast<std::size_t>(i)]) result.push_back(i);
  return result;
}

Shape reduced_shape(const Shape& shape, const Dims& axes, bool keep) {
  Shape result;
  int next = 0;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool reduced = next < axes.rank() && axes[next] == i;
    next += reduced;
    if (!reduced) result.push_back(shape[i]);
    else if (keep) result.push_back(1);
  }
  return result;
}

}  // namespace gradus
