#include "engine/ops/norms.hpp"

#include <cmath>

#include "engine/ops/define.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus {
namespace {

using define::Inputs;

// ---- layer_norm and rms_norm: one function of rows, with or without centring ------------------------------------------

struct RowNormAttributes {
  int axes;
  bool weight, bias;  // which of the two follow x among the inputs
  double eps;

  [[nodiscard]] int bias_input() const noexcept { return weight ? 2 : 1; }
};

Shape last_axes(const Shape& shape, int axes) { return Shape(std::span(shape.end() - axes, shape.end())); }

void check_rows(Run& r) {
  define::like_floating_input(r);
  const auto& a = r.attr<RowNormAttributes>();
  const Shape& shape = r.in(0).shape();
  if (a.axes < 1 || a.axes > shape.rank()) throw ShapeError(r.name(), cat("the last ", a.axes, " axes of ", shape), "name from 1 to all of its axes");
  const Shape row = last_axes(shape, a.axes);
  for (int i = 1; i < r.inputs(); ++i) {
    define::require_same_dtype(r, 0, i);
    if (r.in(i).shape() != row)
      throw ShapeError(r.name(), cat(i == 1 && a.weight ? "weight" : "bias", " has shape ", r.in(i).shape(), ", x ", shape), cat("give ", row));
  }
  if (numel(row) == 0 && numel(Shape(std::span(shape.begin(), shape.end() - a.axes))) > 0)
    throw ShapeError(r.name(), cat("rows of ", row), "a row needs at least one element");
  define::require_eps(r, a.eps);
}

// The rows without weight and bias, and 1 / sqrt(mean square + eps) of each.
struct Normalised {
  Tensor rows, scale;
};
Normalised normalised_rows(const Tensor& x, const RowNormAttributes& a, bool centred) {
  ReduceOptions along{.keep = true};
  for (int i = 1; i <= a.axes; ++i) along.axes.push_back(-i);
  const Tensor deviation = centred ? x - mean(x, along) : x;
  const Tensor scale = rsqrt(mean(square(deviation), along) + a.eps);
  return {deviation * scale, scale};
}

template <bool centred>
Tensor composite_rows(Run& r) {
  const auto& a = r.attr<RowNormAttributes>();
  Tensor y = normalised_rows(r.in(0), a, centred).rows;
  if (a.weight) y = y * r.in(1);
  return a.bias ? y + r.in(a.bias_input()) : y;
}

template <class T>
kernels::RowNormArgs<T> arguments(const Tensor& x, const Tensor& weight, index_t first, index_t rows, index_t n, double eps) {
  return {x.data<T>() + first * n, rows, n, static_cast<T>(eps), weight.defined() ? weight.data<T>() : nullptr};
}

template <bool centred>
void forward_rows(Run& r) {
  const auto& a = r.attr<RowNormAttributes>();
  const Tensor x = contiguous(r.in(0));
  const Tensor weight = a.weight ? contiguous(r.in(1)) : Tensor(), bias = a.bias ? contiguous(r.in(a.bias_input())) : Tensor();
  if (x.numel() == 0) return;
  const index_t n = numel(last_axes(x.shape(), a.axes));
  visit_floating(x.dtype(), r.name(), [&](auto tag) {
    using T = decltype(tag);
    const auto& table = kernels::active<T>().row_norm;
    const auto kernel = centred ? table.layer_norm : table.rms_norm;
    const T* b = a.bias ? bias.data<T>() : nullptr;
    T* y = r.out().mutable_data<T>();
    compute::parallel_rows(x.numel() / n, n, [&](index_t first, index_t rows) { kernel(arguments<T>(x, weight, first, rows, n, a.eps), b, y + first * n); });
  });
}

template <bool centred>
void vjp_rows(Vjp& b) {
  const auto& a = b.attr<RowNormAttributes>();
  const auto [y, scale] = normalised_rows(b.input(0), a, centred);
  const Tensor g = a.weight ? b.grad() * b.input(1) : b.grad();
  if (b.needs(0)) {
    ReduceOptions along{.keep = true};
    for (int i = 1; i <= a.axes; ++i) along.axes.push_back(-i);
    const Tensor across = centred ? g - mean(g, along) : g;
    b.to(0, scale * (across - y * mean(g * y, along)));
  }
  if (a.weight && b.needs(1)) b.to(1, b.grad() * y);
  if (a.bias) b.to(a.bias_input(), b.grad());
}

// Gradients of weight and bias are summed over blocks of rows that depend on the shape alone, and the blocks in the fixed tree.
template <bool centred>
void fused_vjp_rows(Vjp& b) {
  const auto& a = b.attr<RowNormAttributes>();
  const Tensor x = contiguous(b.input(0)), g = contiguous(b.grad()), weight = a.weight ? contiguous(b.input(1)) : Tensor();
  const Shape row = last_axes(x.shape(), a.axes);
  const index_t n = numel(row), rows = n > 0 ? x.numel() / n : 0;
  const index_t block = std::max<index_t>(16, (rows + 63) / 64), blocks = (rows + block - 1) / block;
  const bool to_weight = a.weight && b.needs(1), to_bias = a.bias && b.needs(a.bias_input());
  const auto room = [&](bool wanted) { return wanted ? Tensor::zeros({blocks, n}, x.dtype()) : Tensor(); };
  Tensor gx = b.needs(0) ? Tensor::empty(x.shape(), x.dtype()) : Tensor(), gw = room(to_weight), gb = room(to_bias);
  visit_floating(x.dtype(), "row norm", [&](auto tag) {
    using T = decltype(tag);
    const auto& table = kernels::active<T>().row_norm;
    const auto kernel = centred ? table.layer_norm_backward : table.rms_norm_backward;
    const auto at = [](Tensor& t, index_t offset) { return t.defined() ? t.mutable_data<T>() + offset : nullptr; };
    parallel_for(blocks, 1, [&](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i) {
        const index_t first = i * block;
        kernel(arguments<T>(x, weight, first, std::min(block, rows - first), n, a.eps), g.data<T>() + first * n, at(gx, first * n), at(gw, i * n),
               at(gb, i * n));
      }
    });
  });
  const auto total = [&](const Tensor& parts) { return reshape(sum(parts, {.axes = {0}}), row); };
  if (gx.defined()) b.to(0, gx);
  if (to_weight) b.to(1, total(gw));
  if (to_bias) b.to(a.bias_input(), total(gb));
}

template <bool centred>
constexpr OpDef row_norm(const char* name, const char* formula, const char* law, std::vector<OpCase> (*cases)()) {
  return {.name = name,
          .family = "norms",
          .formula = formula,
          .shapes = "(..., N), weight (N), bias (N) -> (..., N)",
          .law = law,
          .shape = check_rows,
          .forward = forward_rows<centred>,
          .vjp = vjp_rows<centred>,
          .fused_vjp = fused_vjp_rows<centred>,
          .composite = composite_rows<centred>,
          .saves = save::input(0) | save::input(1),
          .cases = cases};
}

Tensor layer_norm_case(const Tensor& x, int axes, const Tensor& weight, double eps) { return layer_norm(x, {.axes = axes, .weight = weight, .eps = eps}); }
Tensor rms_norm_case(const Tensor& x, int axes, const Tensor& weight, double eps) { return rms_norm(x, {.axes = axes, .weight = weight, .eps = eps}); }

// Cases of both, for f(x, axes, weight, eps).
template <Tensor (*f)(const Tensor& x, int axes, const Tensor& weight, double eps)>
std::vector<OpCase> row_cases() {
  return {{"3 x 7", {normal_input({3, 7})}, [](Inputs x) { return f(x[0], 1, {}, 1e-5); }},
          {"long rows", {normal_input({2, 67}), normal_input({67})}, [](Inputs x) { return f(x[0], 1, x[1], 1e-5); }},
          {"many rows", {normal_input({70, 5}), normal_input({5})}, [](Inputs x) { return f(x[0], 1, x[1], 1e-5); }},
          {"two axes", {normal_input({2, 3, 4}), normal_input({3, 4})}, [](Inputs x) { return f(x[0], 2, x[1], 1e-5); }},
          {"eps 0.5", {normal_input({2, 5})}, [](Inputs x) { return f(x[0], 1, {}, 0.5); }},
          {"constant and zero rows", {value_input({3, 3}, {2, 2, 2, 0, 0, 0, 0.1, 0.1, 0.1})}, [](Inputs x) { return f(x[0], 1, {}, 0.5); }},
          {"rows of one element", {normal_input({3, 1}), normal_input({1})}, [](Inputs x) { return f(x[0], 1, x[1], 0.5); }},
          {"constant and zero rows, eps 1e-12", {value_input({2, 3}, {2, 2, 2, 0, 0, 0})}, [](Inputs x) { return f(x[0], 1, {}, 1e-12); }, true},
          {"empty", {normal_input({0, 4}), normal_input({4})}, [](Inputs x) { return f(x[0], 1, x[1], 1e-5); }},
          {"no rows of no elements", {normal_input({0, 0})}, [](Inputs x) { return f(x[0], 1, {}, 1e-5); }}};
}

const OpDef layer_norm_op =
    row_norm<true>("layer_norm", R"(y = \frac{x - \bar x}{\sqrt{\mathrm{var}(x) + \epsilon}} w + b)",
                   "a constant row gives the bias, with a finite gradient; NaN in a row: NaN; rows without elements: an error", [] {
                     auto all = row_cases<layer_norm_case>();
                     all.push_back({"weight and bias", {normal_input({3, 5}), normal_input({5}), normal_input({5})}, [](Inputs x) {
                                      return layer_norm(x[0], {.weight = x[1], .bias = x[2]});
                                    }});
                     all.push_back({"bias only", {normal_input({2, 2, 5}), normal_input({5})}, [](Inputs x) { return layer_norm(x[0], {.bias = x[1]}); }});
                     return all;
                   });

const OpDef rms_norm_op =
    row_norm<false>("rms_norm", R"(y = \frac{x}{\sqrt{\frac1n \sum_j x_j^2 + \epsilon}} w)",
                    "a row of zeros gives zeros, with a finite gradient; NaN in a row: NaN; rows without elements: an error", row_cases<rms_norm_case>);

// ---- l2_normalize -----------------------------------------------------------------------------------------------------

const OpDef l2_normalize_op = {
    .name = "l2_normalize",
    .family = "norms",
    .formula = R"(y = x / \|x\|_2)",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = "a zero vector gives zeros with gradient 0; NaN or inf in a vector: NaN",
    .gradient_note = "0 at a zero vector",
    .shape =
        [](Run& r) {
          define::like_floating_input(r);
          (void)normalize_axis(r.attr<index_t>(), r.in(0).rank(), r.name());
        },
    .composite =
        [](Run& r) {
          const Tensor& x = r.in(0);
          const ReduceOptions along{.axes = {r.attr<index_t>()}, .keep = true};
          if (x.numel() == 0) return x * 1.0;
          // y does not depend on the scale of x: dividing by the largest element keeps the squares in range, and takes no part in the gradient.
          const Tensor largest = max(abs(x.detached()), along);
          const Tensor scaled = x / where(equal_to(largest, 0.0), 1.0, largest);
          const Tensor squares = sum(square(scaled), along), zero = equal_to(squares, 0.0);
          return where(zero, 0.0, scaled * rsqrt(where(zero, 1.0, squares)));
        },
    .cases =
        [] {
          const auto call = [](Inputs x) { return l2_normalize(x[0]); };
          return std::vector<OpCase>{
              {"3 x 7", {normal_input({3, 7})}, call},      {"first axis", {normal_input({5, 4})}, [](Inputs x) { return l2_normalize(x[0], 0); }},
              {"long rows", {normal_input({2, 67})}, call}, {"a zero row", {value_input({2, 3}, {0, 0, 0, 1, -2, 3})}, call, true},
              {"empty", {normal_input({0, 4})}, call},      {"empty axis", {normal_input({4, 0})}, call}};
        },
};

}  // namespace

Tensor layer_norm(const Tensor& x, const LayerNormOptions& options) {
  const RowNormAttributes a{options.axes, options.weight.defined(), options.bias.defined(), options.eps};
  return define::apply_with(layer_norm_op, {&x}, {&options.weight, &options.bias}, a);
}

Tensor rms_norm(const Tensor& x, const RmsNormOptions& options) {
  const RowNormAttributes a{options.axes, options.weight.defined(), false, options.eps};
  return define::apply_with(rms_norm_op, {&x}, {&options.weight}, a);
}

Tensor l2_normalize(const Tensor& x, index_t axis) { return apply(l2_normalize_op, {&x}, axis); }

std::span<const OpDef* const> norms_ops() {
  static const OpDef* const all[] = {&layer_norm_op, &rms_norm_op, &l2_normalize_op};
  return all;
}

}  // namespace gradus
