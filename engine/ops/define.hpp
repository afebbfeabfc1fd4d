#pragma once
// Shape rules and small helpers that op definitions share. For engine/ops only.

#include "engine/autograd/tape.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/tensor/compute.hpp"
#include "engine/tensor/view.hpp"

namespace gradus::define {

inline void require_floating(const Run& r, int i) {
  if (!is_floating(r.in(i).dtype())) throw DTypeError(r.name(), cat("input ", i, " is ", name_of(r.in(i).dtype())), "cast to f32 or f64");
}

inline void require_dtype(const Run& r, int i, DType dtype) {
  if (r.in(i).dtype() != dtype) throw DTypeError(r.name(), cat("input ", i, " is ", name_of(r.in(i).dtype()), ", not ", name_of(dtype)), "cast it");
}

inline void require_same_dtype(const Run& r, int i, int j) {
  if (r.in(i).dtype() != r.in(j).dtype())
    throw DTypeError(r.name(), cat("dtypes differ: ", name_of(r.in(i).dtype()), " and ", name_of(r.in(j).dtype())), "cast one of them");
}

/// One floating input; the output is like it.
inline void like_floating_input(Run& r) {
  require_floating(r, 0);
  r.declare(r.in(0).shape(), r.in(0).dtype());
}

/// A temperature, step size or the like: finite and above zero.
inline void require_positive(const char* op, const char* what, double value) {
  if (!(value > 0) || value > std::numeric_limits<double>::max()) throw ValueError(op, cat(what, " is ", value), "it must be finite and > 0");
}

/// An eps that stabilises a division: finite and above zero, also once rounded to the dtype of input 0.
inline void require_eps(const Run& r, double eps) {
  require_positive(r.name(), "eps", r.in(0).dtype() == DType::f32 ? static_cast<double>(static_cast<float>(eps)) : eps);
}

/// A kernel of (input or output, arriving gradient), for fused gradients of elementwise functions.
template <kernels::Binary kernel>
[[nodiscard]] Tensor gradient_by(const Tensor& value, const Tensor& arrived) {
  Tensor out = Tensor::empty(value.shape(), value.dtype());
  compute::binary(kernel, value, arrived, out);
  return out;
}

/// Runs an op on `first` followed by those of `optional` that are defined.
template <class Attributes>
[[nodiscard]] Tensor apply_with(const OpDef& op, std::initializer_list<const Tensor*> first, std::initializer_list<const Tensor*> optional,
                                const Attributes& attributes) {
  static_assert(std::is_trivially_copyable_v<Attributes> && alignof(Attributes) <= 8, "attributes are copied as bytes");
  std::array<const Tensor*, 8> inputs{};
  std::size_t n = 0;
  for (const Tensor* t : first) inputs[n++] = t;
  for (const Tensor* t : optional)
    if (t->defined()) inputs[n++] = t;
  return apply(op, std::span(inputs).first(n), &attributes, sizeof attributes);
}

/// Infinite slopes times no gradient would be NaN: where nothing arrived, nothing is sent.
[[nodiscard]] inline Tensor unless_zero(const Tensor& arrived, const Tensor& gradient) { return where(equal_to(arrived, 0.0), 0.0, gradient); }

/// The axes before the last two: the batch of a stack of matrices.
[[nodiscard]] inline Dims batch_of(const Dims& dims) {
  Dims batch = dims;
  batch.erase(batch.rank() - 1);
  batch.erase(batch.rank() - 1);
  return batch;
}
[[nodiscard]] inline Shape with_matrix(Shape batch, index_t rows, index_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

using Inputs = std::span<const Tensor>;

}  // namespace gradus::define
