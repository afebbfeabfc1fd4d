#include "engine/ops/masked_product.hpp"

#include "engine/ops/define.hpp"
#include "engine/ops/distance.hpp"
#include "engine/ops/distance_gradient.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/masked_accumulate.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/tensor/strided.hpp"

namespace gradus {
namespace {

using define::batch_of;
using define::Inputs;
using define::with_matrix;

Shape common_batch(Run& r) {
  define::require_floating(r, 0);
  define::require_same_dtype(r, 0, 1);
  define::require_dtype(r, 2, DType::boolean);
  for (int i = 0; i < 3; ++i)
    if (r.in(i).rank() < 2) throw ShapeError(r.name(), cat("input ", i, " has shape ", r.in(i).shape()), "give stacks of matrices");
  const Shape both = broadcast_shapes(batch_of(r.in(0).shape()), batch_of(r.in(1).shape()), r.name());
  return broadcast_shapes(both, batch_of(r.in(2).shape()), r.name());
}

// Checks that `keep` is (..., rows, columns) up to broadcasting.
void require_keep(Run& r, index_t rows, index_t columns) {
  const Shape& keep = r.in(2).shape();
  const index_t keep_rows = keep[keep.rank() - 2], keep_columns = keep.back();
  if ((keep_rows != rows && keep_rows != 1) || (keep_columns != columns && keep_columns != 1))
    throw ShapeError(r.name(), cat("keep is ", keep, ", the matrix it chooses from (..., ", rows, ", ", columns, ")"), "give one bool for each entry");
}

void require_inner(Run& r, index_t a, index_t b) {
  if (a != b) throw ShapeError(r.name(), cat("inner sizes differ: a is ", r.in(0).shape(), ", b is ", r.in(1).shape()), "they must agree");
}

template <class T>
void multiply_kept(const Tensor& a_in, const Tensor& b_in, const Tensor& keep_in, Tensor& out) {
  const Shape batch = batch_of(out.shape());
  const Tensor a = view::expand(where(keep_in, a_in, 0.0), with_matrix(batch, -1, -1)), b = view::expand(b_in, with_matrix(batch, -1, -1));
  const index_t m = a.size(-2), k = a.size(-1), n = b.size(-1);
  const Tensor keep = view::expand(keep_in, with_matrix(batch, m, k));
  const StridedLoop<3> loop(batch, {batch_of(a.strides()), batch_of(b.strides()), batch_of(keep.strides())});
  const int row = out.rank() - 2, column = out.rank() - 1;
  T* to = out.mutable_data<T>();
  std::fill_n(to, out.numel(), T{0});
  const index_t items = numel(batch);
  parallel_for(items, 1, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      const auto at = loop.start(i / loop.run());
      const auto offset = [&](std::size_t operand) { return at[operand] + i % loop.run() * loop.step(operand); };
      define::accumulate_product<T>(
          m, n, k, {a.data<T>() + offset(0), a.strides()[row], a.strides()[column]}, {b.data<T>() + offset(1), b.strides()[row], b.strides()[column]},
          {reinterpret_cast<const std::uint8_t*>(keep.data<bool>() + offset(2)), keep.strides()[row], keep.strides()[column]}, {to + i * m * n, n, 1});
    }
  });
}

const OpDef masked_matmul_op = {
    .name = "masked_matmul",
    .family = "linear algebra",
    .formula = R"(y_{ij} = \sum_{k:\, \mathrm{keep}_{ik}} a_{ik} b_{kj})",
    .shapes = "(..., M, K), (..., K, N), bool (..., M, K) -> (..., M, N)",
    .law = "what is not kept is not read, nor what it would multiply; summed in the order of k",
    .shape =
        [](Run& r) {
          const Shape batch = common_batch(r);
          const Shape &a = r.in(0).shape(), &b = r.in(1).shape();
          require_inner(r, a.back(), b[b.rank() - 2]);
          require_keep(r, a[a.rank() - 2], a.back());
          r.declare(with_matrix(batch, a[a.rank() - 2], b.back()), r.in(0).dtype());
        },
    .forward =
        [](Run& r) { visit_floating(r.out().dtype(), "masked_matmul", [&](auto tag) { multiply_kept<decltype(tag)>(r.in(0), r.in(1), r.in(2), r.out()); }); },
    .vjp =
        [](Vjp& b) {
          const Tensor keep = b.input(2);
          if (b.needs(0)) b.to(0, sampled_matmul(b.grad(), transpose(b.input(1)), keep));
          if (b.needs(1)) b.to(1, masked_matmul(transpose(b.input(0)), b.grad(), transpose(keep)));
        },
    .saves = save::inputs,
    .cases =
        [] {
          const auto call = [](Inputs x) { return masked_matmul(x[0], x[1], x[2]); };
          return std::vector<OpCase>{{"3 x 4 by 4 x 5", {normal_input({3, 4}), normal_input({4, 5}), boolean_input({3, 4})}, call},
                                     {"batch broadcast", {normal_input({2, 1, 3, 4}), normal_input({3, 4, 2}), boolean_input({3, 3, 4})}, call},
                                     {"one row of keep", {normal_input({2, 3, 4}), normal_input({4, 2}), boolean_input({2, 1, 4})}, call},
                                     {"empty", {normal_input({0, 4}), normal_input({4, 2}), boolean_input({1, 4})}, call}};
        },
};

const OpDef sampled_matmul_op = {
    .name = "sampled_matmul",
    .family = "linear algebra",
    .formula = R"(y_{ij} = \mathrm{keep}_{ij} \,?\, \sum_k a_{ik} b_{kj} : 0)",
    .shapes = "(..., M, K), (..., K, N), bool (..., M, N) -> (..., M, N)",
    .law = "the factors of an entry that is not kept are not read for it",
    .shape =
        [](Run& r) {
          const Shape batch = common_batch(r);
          const Shape &a = r.in(0).shape(), &b = r.in(1).shape();
          require_inner(r, a.back(), b[b.rank() - 2]);
          require_keep(r, a[a.rank() - 2], b.back());
          r.declare(with_matrix(batch, a[a.rank() - 2], b.back()), r.in(0).dtype());
        },
    .forward = [](Run& r) { compute::select(r.in(2), matmul(r.in(0), r.in(1)), scalar_like(r.in(0), 0), r.out()); },
    .vjp =
        [](Vjp& b) {
          const Tensor keep = b.input(2);
          if (b.needs(0)) b.to(0, masked_matmul(b.grad(), transpose(b.input(1)), keep));
          if (b.needs(1)) b.to(1, transpose(masked_matmul(transpose(b.grad()), b.input(0), transpose(keep))));
        },
    .saves = save::inputs,
    .cases =
        [] {
          const auto call = [](Inputs x) { return sampled_matmul(x[0], x[1], x[2]); };
          return std::vector<OpCase>{{"3 x 4 by 4 x 5", {normal_input({3, 4}), normal_input({4, 5}), boolean_input({3, 5})}, call},
                                     {"batch broadcast", {normal_input({2, 1, 3, 4}), normal_input({3, 4, 2}), boolean_input({3, 3, 2})}, call},
                                     {"one column of keep", {normal_input({2, 3, 4}), normal_input({4, 2}), boolean_input({2, 3, 1})}, call},
                                     {"empty", {normal_input({0, 4}), normal_input({4, 2}), boolean_input({1, 2})}, call}};
        },
};

const OpDef sampled_squared_distance_op = {
    .name = "sampled_squared_distance",
    .family = "distance",
    .formula = R"(y_{ij} = \mathrm{keep}_{ij} \,?\, \sum_p (a_{ip} - b_{jp})^2 : 0)",
    .shapes = "(..., N, D), (..., K, D), bool (..., N, K) -> (..., N, K)",
    .law = "the points of an entry that is not kept are not read for it; else as squared_distance",
    .shape =
        [](Run& r) {
          const Shape batch = common_batch(r);
          const Shape &a = r.in(0).shape(), &b = r.in(1).shape();
          require_inner(r, a.back(), b.back());
          require_keep(r, a[a.rank() - 2], b[b.rank() - 2]);
          r.declare(with_matrix(batch, a[a.rank() - 2], b[b.rank() - 2]), r.in(0).dtype());
        },
    .forward = [](Run& r) { compute::select(r.in(2), squared_distance(r.in(0), r.in(1)), scalar_like(r.in(0), 0), r.out()); },
    .vjp =
        [](Vjp& b) {
          const Tensor keep = b.input(2), g = where(keep, b.grad(), 0.0);
          if (g.numel() == 0) return;
          const define::MovedPoints moved = define::moved_near_origin(b.input(0), b.input(1));
          if (b.needs(0)) b.to(0, define::distance_gradient(moved.x, moved.c, g, keep));
          if (b.needs(1)) b.to(1, define::distance_gradient(moved.c, moved.x, transpose(g), transpose(keep)));
        },
    .saves = save::inputs,
    .cases =
        [] {
          const auto call = [](Inputs x) { return sampled_squared_distance(x[0], x[1], x[2]); };
          return std::vector<OpCase>{{"3 x 2 to 4 x 2", {normal_input({3, 2}), normal_input({4, 2}), boolean_input({3, 4})}, call},
                                     {"batch broadcast", {normal_input({2, 1, 4, 3}), normal_input({3, 2, 3}), boolean_input({3, 4, 2})}, call},
                                     {"one row of keep", {normal_input({4, 3}), normal_input({5, 3}), boolean_input({1, 5})}, call},
                                     {"empty", {normal_input({0, 3}), normal_input({2, 3}), boolean_input({1, 2})}, call}};
        },
};

}  // namespace

Tensor masked_matmul(const Tensor& a, const Tensor& b, const Tensor& keep) { return apply(masked_matmul_op, {&a, &b, &keep}); }
Tensor sampled_matmul(const Tensor& a, const Tensor& b, const Tensor& keep) { return apply(sampled_matmul_op, {&a, &b, &keep}); }
Tensor sampled_squared_distance(const Tensor& a, const Tensor& b, const Tensor& keep) { return apply(sampled_squared_distance_op, {&a, &b, &keep}); }

std::span<const OpDef* const> masked_product_ops() {
  static const OpDef* const all[] = {&masked_matmul_op, &sampled_matmul_op, &sampled_squared_distance_op};
  return all;
}

}  // namespace gradus
