#include "engine/ops/distance.hpp"

#include "engine/ops/define.hpp"
#include "engine/ops/distance_gradient.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/tensor/strided.hpp"

namespace gradus {
namespace {

using define::batch_of;
using define::Inputs;
using define::with_matrix;

// Kernels want the coordinates of a point side by side; rows may be anywhere.
Tensor with_contiguous_points(const Tensor& t) { return t.strides().back() == 1 || t.shape().back() <= 1 ? t : copy(t); }

// Two stacks of points with equal batch axes.
struct Pair {
  Tensor a, b;
  Shape batch;
};
Pair align(const Tensor& a, const Tensor& b) {
  const Shape batch = broadcast_shapes(batch_of(a.shape()), batch_of(b.shape()), "squared_distance");
  return {view::expand(with_contiguous_points(a), with_matrix(batch, -1, -1)), view::expand(with_contiguous_points(b), with_matrix(batch, -1, -1)), batch};
}

template <class T>
void run_forward(const Tensor& a, const Tensor& b, Tensor& out) {
  const Pair in = align(a, b);
  const int row = out.rank() - 2;
  const StridedLoop<3> loop(in.batch, {batch_of(in.a.strides()), batch_of(in.b.strides()), batch_of(out.strides())});
  const T *x = in.a.data<T>(), *c = in.b.data<T>();
  T* y = out.mutable_data<T>();
  for (index_t r = 0; r < loop.runs(); ++r) {
    const auto at = loop.start(r);
    kernels::DistanceArgs<T> args{.n = in.a.shape()[row], .k = in.b.shape()[row], .d = in.a.shape().back(), .x = x + at[0], .x_row = in.a.strides()[row]};
    args.c = c + at[1];
    args.c_row = in.b.strides()[row];
    args.out = y + at[2];
    args.out_row = out.strides()[row];
    args.batch = loop.run();
    args.x_batch = loop.step(0);
    args.c_batch = loop.step(1);
    args.out_batch = loop.step(2);
    kernels::active<T>().distance.squared_distance(args);
  }
}

// Both gradients at the broadcast shapes; the accumulator sums what was stretched.
template <class T>
void run_backward(const Tensor& a, const Tensor& b, const Tensor& g, Tensor& ga, Tensor& gb) {
  const Pair in = align(a, b);
  const int row = g.rank() - 2;
  const Tensor upstream = contiguous(g);
  const StridedLoop<5> loop(in.batch,
                            {batch_of(in.a.strides()), batch_of(in.b.strides()), batch_of(upstream.strides()), batch_of(ga.strides()), batch_of(gb.strides())});
  const T *x = in.a.data<T>(), *c = in.b.data<T>(), *up = upstream.data<T>();
  T *to_a = ga.mutable_data<T>(), *to_b = gb.mutable_data<T>();
  for (index_t r = 0; r < loop.runs(); ++r) {
    const auto at = loop.start(r);
    kernels::DistanceBackwardArgs<T> args{
        .n = in.a.shape()[row], .k = in.b.shape()[row], .d = in.a.shape().back(), .x = x + at[0], .x_row = in.a.strides()[row]};
    args.c = c + at[1];
    args.c_row = in.b.strides()[row];
    args.g = up + at[2];
    args.g_row = upstream.strides()[row];
    args.gx = to_a + at[3];
    args.gx_row = ga.strides()[row];
    args.gc = to_b + at[4];
    args.gc_row = gb.strides()[row];
    args.batch = loop.run();
    args.x_batch = loop.step(0);
    args.c_batch = loop.step(1);
    args.g_batch = loop.step(2);
    args.gx_batch = loop.step(3);
    args.gc_batch = loop.step(4);
    kernels::active<T>().distance.squared_distance_backward(args);
  }
}

// The same by products, for many coordinates: gx = 2 (x sum(g) - g c), one fma after another from the first term.
template <class T>
void multiply_backward(const Tensor& x, const Tensor& c, const Tensor& slopes, Tensor& gx) {
  const index_t items = numel(batch_of(gx.shape())), rows = x.size(-2), d = x.size(-1), k = c.size(-2);
  const Tensor sums = sum(slopes, {.axes = {-1}}), factors = -2.0 * slopes;  // contiguous
  const T *s = sums.data<T>(), *from = x.data<T>();
  T* to = gx.mutable_data<T>();
  compute::parallel_rows(items * rows, d, [&](index_t first, index_t count) {
    for (index_t i = first; i < first + count; ++i) {
      const T twice = s[i] + s[i];
      for (index_t p = 0; p < d; ++p) to[i * d + p] = twice * from[i * d + p];
    }
  });
  kernels::GemmArgs<T> args{
      .m = rows, .n = d, .k = k, .a = factors.data<T>(), .a_row = k, .b = c.data<T>(), .b_row = d, .c = to, .c_row = d, .accumulate = true};
  args.batch = items;
  args.a_batch = rows * k;
  args.b_batch = k * d;
  args.c_batch = rows * d;
  kernels::active<T>().gemm.gemm(args);
}

// From so many coordinates on products are faster than differences.
constexpr index_t many_coordinates = 32;

void fused_vjp(Vjp& b) {
  const Tensor x = b.input(0), c = b.input(1);
  const Shape batch = batch_of(b.grad().shape());
  Tensor gx = Tensor::empty(with_matrix(batch, x.size(-2), x.size(-1)), x.dtype()), gc = Tensor::empty(with_matrix(batch, c.size(-2), c.size(-1)), x.dtype());
  visit_floating(x.dtype(), "squared_distance", [&](auto tag) {
    using T = decltype(tag);
    if (x.size(-1) < many_coordinates) return run_backward<T>(x, c, b.grad(), gx, gc);
    const define::MovedPoints moved = define::moved_near_origin(x, c);
    const Tensor points = contiguous(view::expand(moved.x, gx.shape())), centres = contiguous(view::expand(moved.c, gc.shape()));
    multiply_backward<T>(points, centres, contiguous(b.grad()), gx);
    multiply_backward<T>(centres, points, contiguous(view::transpose(b.grad(), -1, -2)), gc);
  });
  b.to(0, gx);
  b.to(1, gc);
}

const OpDef squared_distance_op = {
    .name = "squared_distance",
    .family = "distance",
    .formula = R"(y_{ij} = \sum_p (a_{ip} - b_{jp})^2)",
    .shapes = "(..., N, D), (..., K, D) -> (..., N, K)",
    .law = "from differences: never negative, exactly 0 from a point to itself, gradient 0 there",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          define::require_same_dtype(r, 0, 1);
          const Shape &a = r.in(0).shape(), &b = r.in(1).shape();
          if (a.rank() < 2 || b.rank() < 2 || a.back() != b.back())
            throw ShapeError("squared_distance", cat("a is ", a, ", b is ", b), "give (..., N, D) and (..., K, D)");
          r.declare(with_matrix(broadcast_shapes(batch_of(a), batch_of(b), "squared_distance"), a[a.rank() - 2], b[b.rank() - 2]), r.in(0).dtype());
        },
    .forward = [](Run& r) { visit_floating(r.out().dtype(), "squared_distance", [&](auto tag) { run_forward<decltype(tag)>(r.in(0), r.in(1), r.out()); }); },
    .vjp =
        [](Vjp& b) {
          const define::MovedPoints moved = define::moved_near_origin(b.input(0), b.input(1));
          if (b.needs(0)) b.to(0, define::distance_gradient(moved.x, moved.c, b.grad()));
          if (b.needs(1)) b.to(1, define::distance_gradient(moved.c, moved.x, transpose(b.grad())));
        },
    .fused_vjp = fused_vjp,
    .composite =
        [](Run& r) {
          const Tensor &a = r.in(0), &b = r.in(1);
          return sum(square(unsqueeze(a, -2) - unsqueeze(b, -3)), {.axes = {-1}});
        },
    .saves = save::inputs,
    .cases =
        [] {
          const auto call = [](Inputs x) { return squared_distance(x[0], x[1]); };
          return std::vector<OpCase>{{"3 x 2 to 4 x 2", {normal_input({3, 2}), normal_input({4, 2})}, call},
                                     {"many", {normal_input({37, 5}), normal_input({19, 5})}, call},
                                     {"many coordinates", {normal_input({2, 3, 40}), normal_input({4, 40})}, call},
                                     {"batch", {normal_input({2, 4, 3}), normal_input({2, 3, 3})}, call},
                                     {"batch broadcast", {normal_input({2, 1, 4, 3}), normal_input({3, 2, 3})}, call},
                                     {"to itself", {normal_input({4, 3})}, [](Inputs x) { return squared_distance(x[0], x[0]); }},
                                     {"no coordinates", {normal_input({3, 0}), normal_input({2, 0})}, call},
                                     {"empty", {normal_input({0, 3}), normal_input({2, 3})}, call}};
        },
};

}  // namespace

Tensor squared_distance(const Tensor& a, const Tensor& b) { return apply(squared_distance_op, {&a, &b}); }

std::span<const OpDef* const> distance_ops() {
  static const OpDef* const all[] = {&squared_distance_op};
  return all;
}

}  // namespace gradus
