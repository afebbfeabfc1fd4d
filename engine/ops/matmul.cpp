#include "engine/ops/matmul.hpp"

#include "engine/ops/define.hpp"
#include "engine/ops/layout.hpp"
#include "engine/tensor/strided.hpp"

namespace gradus {
namespace {

using define::batch_of;
using define::Inputs;
using define::with_matrix;

void check_shapes(Run& r) {
  define::require_floating(r, 0);
  define::require_same_dtype(r, 0, 1);
  const Shape &a = r.in(0).shape(), &b = r.in(1).shape();
  if (a.rank() < 2 || b.rank() < 2) throw ShapeError("matmul", cat("a is ", a, ", b is ", b), "both need at least one axis");
  if (a.back() != b[b.rank() - 2])
    throw ShapeError("matmul", cat("inner sizes differ: a is ", a, ", b is ", b),
                     a.back() == b.back() ? "transpose b" : "the last axis of a must match the one before last of b");
  r.declare(with_matrix(broadcast_shapes(batch_of(a), batch_of(b), "matmul"), a[a.rank() - 2], b.back()), r.in(0).dtype());
}

// Broadcast batch axes become strides of 0; the innermost merged batch axis is one batched call.
template <class T>
void multiply(const Tensor& a, const Tensor& b, Tensor& c) {
  const Shape batch = batch_of(c.shape());
  const int m = c.rank() - 2, n = c.rank() - 1;
  const Tensor x = view::expand(a, with_matrix(batch, -1, -1)), y = view::expand(b, with_matrix(batch, -1, -1));
  const StridedLoop<3> loop(batch, {batch_of(x.strides()), batch_of(y.strides()), batch_of(c.strides())});
  T* to = c.mutable_data<T>();
  for (index_t r = 0; r < loop.runs(); ++r) {
    const auto at = loop.start(r);
    kernels::active<T>().gemm.gemm({.m = c.shape()[m],
                                    .n = c.shape()[n],
                                    .k = x.shape()[n],
                                    .a = x.data<T>() + at[0],
                                    .a_row = x.strides()[m],
                                    .a_col = x.strides()[n],
                                    .b = y.data<T>() + at[1],
                                    .b_row = y.strides()[m],
                                    .b_col = y.strides()[n],
                                    .c = to + at[2],
                                    .c_row = c.strides()[m],
                                    .accumulate = false,
                                    .batch = loop.run(),
                                    .a_batch = loop.step(0),
                                    .b_batch = loop.step(1),
                                    .c_batch = loop.step(2)});
  }
}

const OpDef matmul_op = {
    .name = "matmul",
    .family = "linear algebra",
    .formula = R"(y_{ij} = \sum_k a_{ik} b_{kj})",
    .shapes = "(..., M, K), (..., K, N) -> (..., M, N)",
    .law = "summed in the order of k; an empty k gives 0; NaN and inf propagate, also past a factor 0",
    .shape = check_shapes,
    .forward = [](Run& r) { visit_floating(r.out().dtype(), "matmul", [&](auto tag) { multiply<decltype(tag)>(r.in(0), r.in(1), r.out()); }); },
    .vjp =
        [](Vjp& b) {
          if (b.needs(0)) b.to(0, matmul(b.grad(), transpose(b.input(1))));
          if (b.needs(1)) b.to(1, matmul(transpose(b.input(0)), b.grad()));
        },
    .saves = save::inputs,
    .cases =
        [] {
          const auto call = [](Inputs x) { return matmul(x[0], x[1]); };
          return std::vector<OpCase>{{"3 x 4 by 4 x 5", {normal_input({3, 4}), normal_input({4, 5})}, call},
                                     {"17 x 33 by 33 x 9", {normal_input({17, 33}), normal_input({33, 9})}, call},
                                     {"batch", {normal_input({2, 3, 4}), normal_input({2, 4, 2})}, call},
                                     {"batch broadcast", {normal_input({2, 1, 3, 4}), normal_input({3, 4, 2})}, call},
                                     {"shared right", {normal_input({3, 2, 4}), normal_input({4, 2})}, call},
                                     {"vectors", {normal_input({4}), normal_input({4})}, call},
                                     {"matrix by vector", {normal_input({3, 4}), normal_input({4})}, call},
                                     {"empty k", {normal_input({3, 0}), normal_input({0, 2})}, call},
                                     {"empty", {normal_input({0, 4}), normal_input({4, 2})}, call}};
        },
};

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.rank() == 1) return squeeze(matmul(unsqueeze(a, 0), b), b.rank() == 1 ? -1 : -2);
  if (b.rank() == 1) return squeeze(matmul(a, unsqueeze(b, -1)), -1);
  // One matrix for a whole batch: fold the batch into the rows, so that its gradient is one product and not a sum of many.
  if (b.rank() == 2 && a.rank() > 2 && a.numel() > 0) {
    Shape shape = a.shape();
    const Tensor folded = matmul(reshape(a, {-1, a.shape().back()}), b);
    shape[shape.rank() - 1] = b.shape()[1];
    return reshape(folded, shape);
  }
  return apply(matmul_op, {&a, &b});
}

std::span<const OpDef* const> matmul_ops() {
  static const OpDef* const all[] = {&matmul_op};
  return all;
}

}  // namespace gradus
