#include "engine/ops/linear.hpp"

#include "engine/ops/activation.hpp"
#include "engine/ops/define.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/tensor/compute.hpp"

namespace gradus {
namespace {

using define::Inputs;

// (..., N) as one matrix (., N).
Tensor as_rows(const Tensor& x) {
  Shape shape = x.shape();
  const index_t n = shape.back();
  shape.erase(shape.rank() - 1);
  return reshape(x, {numel(shape), n});
}

// The products start from the bias.
template <class T>
void multiply(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y) {
  const Tensor rows = as_rows(contiguous(x));
  const index_t m = rows.size(0), n = weight.size(0), k = weight.size(1);
  kernels::active<T>().gemm.gemm({.m = m,
                                  .n = n,
                                  .k = k,
                                  .a = rows.data<T>(),
                                  .a_row = k,
                                  .b = weight.data<T>(),
                                  .b_row = weight.strides()[1],
                                  .b_col = weight.strides()[0],
                                  .c = y.mutable_data<T>(),
                                  .c_row = n,
                                  .bias = bias.defined() ? bias.data<T>() : nullptr});
}

const OpDef linear_op = {
    .name = "linear",
    .family = "linear algebra",
    .formula = R"(y = x W^\top + b)",
    .shapes = "(..., K), weight (N, K), bias (N) -> (..., N)",
    .law = "that of matmul; the sums start from the bias",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          for (int i = 1; i < r.inputs(); ++i) define::require_same_dtype(r, 0, i);
          const Shape &x = r.in(0).shape(), &w = r.in(1).shape();
          if (x.rank() < 1 || w.rank() != 2 || x.back() != w[1])
            throw ShapeError("linear", cat("x is ", x, ", the weight ", w),
                             w.rank() == 2 && x.rank() > 0 && x.back() == w[0] ? "transpose the weight" : "give (..., K) and (N, K)");
          if (r.inputs() > 2 && r.in(2).shape() != Shape{w[0]})
            throw ShapeError("linear", cat("the bias is ", r.in(2).shape(), ", the weight ", w), cat("give ", Shape{w[0]}));
          Shape y = x;
          y[y.rank() - 1] = w[0];
          r.declare(y, r.in(0).dtype());
        },
    .forward =
        [](Run& r) {
          const Tensor bias = r.inputs() > 2 ? contiguous(r.in(2)) : Tensor();
          visit_floating(r.out().dtype(), "linear", [&](auto tag) { multiply<decltype(tag)>(r.in(0), r.in(1), bias, r.out()); });
        },
    .vjp =
        [](Vjp& b) {
          const Tensor& g = b.grad();
          if (b.needs(0)) b.to(0, matmul(g, b.input(1)));
          if (b.needs(1)) b.to(1, matmul(transpose(as_rows(g)), as_rows(b.input(0))));
          if (b.inputs() > 2 && b.needs(2)) b.to(2, g);
        },
    .composite =
        [](Run& r) {
          const Tensor y = matmul(r.in(0), transpose(r.in(1)));
          return r.inputs() > 2 ? y + r.in(2) : y;
        },
    .saves = save::input(0) | save::input(1),
    .cases =
        [] {
          const auto x = normal_input({4, 3}), w = normal_input({5, 3}), b = normal_input({5});
          // One output above the kink and one below.
          const auto positive = uniform_input({4, 3}, 0.5, 1), signs = value_input({2, 3}, {0.5, 1, 0.3, -0.7, -1, -0.2}), two = uniform_input({2}, -0.1, 0.1);
          return std::vector<OpCase>{
              {"without bias", {x, w}, [](Inputs t) { return linear(t[0], t[1]); }},
              {"bias", {x, w, b}, [](Inputs t) { return linear(t[0], t[1], {.bias = t[2]}); }},
              {"a vector", {normal_input({3}), w, b}, [](Inputs t) { return linear(t[0], t[1], {.bias = t[2]}); }},
              {"batch", {normal_input({2, 2, 3}), w, b}, [](Inputs t) { return linear(t[0], t[1], {.bias = t[2]}); }},
              {"relu", {positive, signs, two}, [](Inputs t) { return linear(t[0], t[1], {.bias = t[2], .activation = Activation::relu}); }},
              {"tanh", {x, w, b}, [](Inputs t) { return linear(t[0], t[1], {.bias = t[2], .activation = Activation::tanh}); }},
              {"gelu", {x, w, b}, [](Inputs t) { return linear(t[0], t[1], {.bias = t[2], .activation = Activation::gelu}); }},
              {"gelu by tanh", {x, w}, [](Inputs t) { return linear(t[0], t[1], {.activation = Activation::gelu_tanh}); }},
              {"silu", {x, w, b}, [](Inputs t) { return linear(t[0], t[1], {.bias = t[2], .activation = Activation::silu}); }},
              {"sigmoid", {x, w}, [](Inputs t) { return linear(t[0], t[1], {.activation = Activation::sigmoid}); }},
              {"rectified quadratic",
               {positive, signs, two},
               [](Inputs t) { return linear(t[0], t[1], {.bias = t[2], .activation = Activation::rectified_quadratic}); }},
              {"no features", {normal_input({4, 0}), normal_input({5, 0}), b}, [](Inputs t) { return linear(t[0], t[1], {.bias = t[2]}); }},
              {"empty", {normal_input({0, 3}), w, b}, [](Inputs t) { return linear(t[0], t[1], {.bias = t[2]}); }}};
        },
};

const OpDef outer_op = {
    .name = "outer",
    .family = "linear algebra",
    .formula = R"(y_{ij} = a_i b_j)",
    .shapes = "(N), (M) -> (N, M)",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          define::require_same_dtype(r, 0, 1);
          if (r.in(0).rank() != 1 || r.in(1).rank() != 1)
            throw ShapeError("outer", cat("a is ", r.in(0).shape(), ", b is ", r.in(1).shape()), "give two vectors, or use einsum");
          r.declare({r.in(0).numel(), r.in(1).numel()}, r.in(0).dtype());
        },
    .composite = [](Run& r) { return unsqueeze(r.in(0), 1) * r.in(1); },
    .cases =
        [] {
          const auto call = [](Inputs x) { return outer(x[0], x[1]); };
          return std::vector<OpCase>{{"3 by 5", {normal_input({3}), normal_input({5})}, call},
                                     {"67 by 2", {normal_input({67}), normal_input({2})}, call},
                                     {"with itself", {normal_input({4})}, [](Inputs x) { return outer(x[0], x[0]); }},
                                     {"empty", {normal_input({0}), normal_input({2})}, call}};
        },
};

}  // namespace

Tensor activate(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::none: return x;
    case Activation::relu: return relu(x);
    case Activation::tanh: return tanh(x);
    case Activation::sigmoid: return sigmoid(x);
    case Activation::rectified_quadratic: return rectified_quadratic(x);
    case Activation::gelu: return gelu(x);
    case Activation::gelu_tanh: return gelu_tanh(x);
    case Activation::silu: return silu(x);
  }
  throw ValueError("linear", cat("no activation ", static_cast<int>(activation)), "use one of the enumeration");
}

Tensor linear(const Tensor& x, const Tensor& weight, const LinearOptions& options) {
  const Tensor y = options.bias.defined() ? apply(linear_op, {&x, &weight, &options.bias}) : apply(linear_op, {&x, &weight});
  return activate(y, options.activation);
}
Tensor outer(const Tensor& a, const Tensor& b) { return apply(outer_op, {&a, &b}); }

std::span<const OpDef* const> linear_ops() {
  static const OpDef* const all[] = {&linear_op, &outer_op};
  return all;
}

}  // namespace gradus
