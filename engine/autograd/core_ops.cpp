#include "engine/autograd/core_ops.hpp"

#include "engine/autograd/tape.hpp"
#include "engine/tensor/compute.hpp"
#include "engine/tensor/view.hpp"

namespace gradus {
namespace {

// The axes along which `shape` was stretched, or prepended, to give `wide`.
Dims stretched_axes(const Shape& wide, const Shape& shape) {
  Dims axes;
  const int extra = wide.rank() - shape.rank();
  for (int i = 0; i < wide.rank(); ++i)
    if (i < extra || (shape[i - extra] == 1 && wide[i] != 1)) axes.push_back(i);
  return axes;
}

const OpDef add_op = {
    .name = "add",
    .family = "elementwise",
    .formula = R"(y = a + b)",
    .shapes = "(...), (...) -> broadcast (...)",
    .dtypes = "f32 f64 i64",
    .shape =
        [](Run& r) {
          if (r.in(0).dtype() != r.in(1).dtype())
            throw DTypeError("add", cat("dtypes differ: ", name_of(r.in(0).dtype()), " and ", name_of(r.in(1).dtype())), "cast one of them");
          if (r.in(0).dtype() == DType::boolean) throw DTypeError("add", "not defined on bool", "use logical_or, or cast");
          r.declare(broadcast_shapes(r.in(0).shape(), r.in(1).shape(), "add"), r.in(0).dtype());
        },
    .forward = [](Run& r) { compute::binary(kernels::Binary::add, r.in(0), r.in(1), r.out()); },
    .vjp =
        [](Vjp& b) {
          b.to(0, b.grad());
          b.to(1, b.grad());
        },
    .cases =
        [] {
          const auto call = [](std::span<const Tensor> x) { return add(x[0], x[1]); };
          return std::vector<OpCase>{{"same shape", {normal_input({3, 4}), normal_input({3, 4})}, call},
                                     {"row and column", {normal_input({3, 1}), normal_input({1, 4})}, call},
                                     {"more axes", {normal_input({2, 1, 4}), normal_input({3, 4})}, call},
                                     {"scalar", {normal_input({}), normal_input({5})}, call},
                                     {"long", {normal_input({67}), normal_input({67})}, call},
                                     {"empty", {normal_input({0, 4}), normal_input({4})}, call}};
        },
};

const OpDef sum_to_shape_op = {
    .name = "sum_to_shape",
    .family = "reduce",
    .formula = R"(y = \sum_{\text{stretched axes}} x)",
    .shapes = "broadcast (...) -> (...)",
    .law = "sums the axes along which the target was broadcast; summing none of an empty axis gives 0",
    .shape =
        [](Run& r) {
          const Shape& target = r.attr<Shape>();
          if (target.rank() > r.in(0).rank() || broadcast_shapes(target, r.in(0).shape(), "sum_to_shape") != r.in(0).shape())
            throw ShapeError("sum_to_shape", cat(target, " does not broadcast to ", r.in(0).shape()), "the target must have come from broadcasting");
          r.declare(target, r.in(0).dtype());
        },
    .forward =
        [](Run& r) {
          const Dims axes = stretched_axes(r.in(0).shape(), r.attr<Shape>());
          if (axes.empty()) copy_into(r.out(), r.in(0));
          else compute::reduce(kernels::Reduction::sum, r.in(0), axes, r.out());
        },
    .vjp = [](Vjp& b) { b.to(0, add(zeros(b.input_shape(0), b.grad().dtype()), b.grad())); },
    .fused_vjp = [](Vjp& b) { b.to(0, view::expand(b.grad(), b.input_shape(0))); },
    .cases =
        [] {
          return std::vector<OpCase>{{"leading axis", {normal_input({3, 4})}, [](std::span<const Tensor> x) { return sum_to_shape(x[0], {4}); }},
                                     {"inner axis",
                                      {normal_input({3, 4, 2})},
                                      [](std::span<const Tensor> x) {
                                        return sum_to_shape(x[0], {3, 1, 2});
                                      }},
                                     {"to a scalar", {normal_input({5, 7})}, [](std::span<const Tensor> x) { return sum_to_shape(x[0], {}); }},
                                     {"nothing to sum",
                                      {normal_input({2, 3})},
                                      [](std::span<const Tensor> x) {
                                        return sum_to_shape(x[0], {2, 3});
                                      }},
                                     {"empty", {normal_input({0, 3})}, [](std::span<const Tensor> x) { return sum_to_shape(x[0], {3}); }}};
        },
};

}  // namespace

Tensor zeros(const Shape& shape, DType dtype) { return Tensor::zeros(shape, dtype); }
Tensor add(const Tensor& a, const Tensor& b) { return apply(add_op, {&a, &b}); }
Tensor sum_to_shape(const Tensor& x, const Shape& shape) { return apply(sum_to_shape_op, {&x}, shape); }

std::span<const OpDef* const> core_ops() {
  static const OpDef* const all[] = {&add_op, &sum_to_shape_op};
  return all;
}

}  // namespace gradus
