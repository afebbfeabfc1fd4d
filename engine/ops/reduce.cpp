#include "engine/ops/reduce.hpp"

#include "engine/ops/normalize.hpp"
#include "engine/ops/reduce_rules.hpp"
#include "engine/ops/scan.hpp"

namespace gradus {
namespace {

using define::declare_reduced;
using define::Inputs;
using define::reduce_cases;
using define::ReduceAttributes;
using define::reduced_count;
using define::with_axes;

template <kernels::Reduction kind>
void run_reduce(Run& r) {
  compute::reduce(kind, r.in(0), r.attr<ReduceAttributes>().axes, r.out());
}

void declare_reduced_nonempty(Run& r) {
  declare_reduced(r);
  const auto& a = r.attr<ReduceAttributes>();
  if (reduced_count(r.in(0).shape(), a.axes) == 0 && numel(reduced_shape(r.in(0).shape(), a.axes, false)) > 0)
    throw ShapeError(r.name(), cat("reducing an empty axis of ", r.in(0).shape()), "there is no such element; sum gives 0");
}

const OpDef sum_op = {.name = "sum",
                      .family = "reduce",
                      .formula = R"(y = \sum_i x_i)",
                      .shapes = "(..., N, ...) -> (..., 1, ...) or (...)",
                      .law = "of nothing: 0; fixed summation tree",
                      .shape = declare_reduced,
                      .forward = run_reduce<kernels::Reduction::sum>,
                      .vjp = [](Vjp& b) { b.to(0, expand(with_axes(b.grad(), b.input_shape(0), b.attr<ReduceAttributes>()), b.input_shape(0))); },
                      .cases =
                          [] {
                            auto all = reduce_cases<sum>();
                            all.push_back({"of nothing", {normal_input({4, 0})}, [](Inputs x) { return sum(x[0], {.axes = {1}}); }});
                            return all;
                          }};

const OpDef mean_op = {.name = "mean",
                       .family = "reduce",
                       .formula = R"(y = \frac1n \sum_i x_i)",
                       .shapes = "(..., N, ...) -> (..., 1, ...) or (...)",
                       .law = "of nothing: an error",
                       .shape = declare_reduced_nonempty,
                       .forward =
                           [](Run& r) {
                             run_reduce<kernels::Reduction::sum>(r);
                             const Tensor total = r.out();
                             const auto n = static_cast<double>(reduced_count(r.in(0).shape(), r.attr<ReduceAttributes>().axes));
                             compute::binary(kernels::Binary::div, total, Tensor::scalar(n, total.dtype()), r.out());
                           },
                       .vjp =
                           [](Vjp& b) {
                             const auto& a = b.attr<ReduceAttributes>();
                             const auto n = static_cast<double>(reduced_count(b.input_shape(0), a.axes));
                             b.to(0, expand(with_axes(b.grad() / n, b.input_shape(0), a), b.input_shape(0)));
                           },
                       .cases = reduce_cases<mean>};

template <kernels::Reduction kind>
constexpr OpDef extremum(const char* name, const char* formula, std::vector<OpCase> (*cases)()) {
  return {.name = name,
          .family = "reduce",
          .formula = formula,
          .shapes = "(..., N, ...) -> (..., 1, ...) or (...)",
          .law = "NaN if there is one; ties share the gradient evenly; of nothing: an error",
          .shape = declare_reduced_nonempty,
          .forward = run_reduce<kind>,
          .vjp =
              [](Vjp& b) {
                const auto& a = b.attr<ReduceAttributes>();
                const Tensor x = b.input(0);
                const Tensor hit = equal_to(x, with_axes(b.output(), x.shape(), a));
                const Tensor count = sum(cast(hit, x.dtype()), {.axes = a.axes, .keep = true});
                b.to(0, where(hit, with_axes(b.grad(), x.shape(), a) / count, 0.0));
              },
          .saves = save::input(0) | save::output,
          .cases = cases};
}

const OpDef max_op = extremum<kernels::Reduction::max>("max", R"(y = \max_i x_i)", [] {
  auto all = reduce_cases<max>();
  all.push_back({"ties", {value_input({4}, {1, 3, 3, 2})}, [](Inputs x) { return max(x[0], {}); }, true});
  return all;
});
const OpDef min_op = extremum<kernels::Reduction::min>("min", R"(y = \min_i x_i)", reduce_cases<min>);

const OpDef logsumexp_op = {
    .name = "logsumexp",
    .family = "reduce",
    .formula = R"(y = \ln \sum_i e^{x_i})",
    .shapes = "(..., N, ...) -> (..., 1, ...) or (...)",
    .law = "of -inf only, or of nothing: -inf with gradient 0; NaN in the row: NaN",
    .shape = declare_reduced,
    .forward =
        [](Run& r) {
          const Tensor x = contiguous(r.in(0));
          visit_floating(x.dtype(), "logsumexp", [&](auto tag) {
            using T = decltype(tag);
            const index_t rows = r.out().numel(), n = rows > 0 ? x.numel() / rows : 0;
            const T* from = x.data<T>();
            T* to = r.out().mutable_data<T>();
            compute::parallel_rows(rows, n, [&](index_t row, index_t count) { kernels::active<T>().softmax.logsumexp(from + row * n, count, n, to + row); });
          });
        },
    .vjp =
        [](Vjp& b) {
          const Tensor weights = softmax(b.input(0), {.axis = -1});
          b.to(0, unsqueeze(b.grad(), -1) * weights);
        },
    .saves = save::input(0),
    .cases =
        [] {
          auto all = reduce_cases<logsumexp>();
          all.push_back({"large", {value_input({2, 2}, {1000, 1001, -1000, -1002})}, [](Inputs x) { return logsumexp(x[0], {.axes = {1}}); }});
          return all;
        }};

const OpDef prod_op = {
    .name = "prod",
    .family = "reduce",
    .formula = R"(y = \prod_i x_i)",
    .shapes = "(..., N, ...) -> (..., 1, ...) or (...)",
    .law = "of nothing: 1; the gradient never divides, so that it is right with any number of zeros",
    .shape = declare_reduced,
    .forward = run_reduce<kernels::Reduction::prod>,
    .vjp =
        [](Vjp& b) {
          // dy/dx_i is the product of all before i times that of all after i.
          const Tensor x = b.input(0);
          const index_t n = x.shape().back();
          if (n == 0) return;
          Shape column = x.shape();
          column[column.rank() - 1] = 1;
          const Tensor one = Tensor::ones(column, x.dtype());
          const std::array<Tensor, 2> left{one, slice(x, -1, {0, n - 1})}, right{slice(x, -1, {1}), one};
          b.to(0, unsqueeze(b.grad(), -1) * (cumprod(concat(left, -1)) * cumprod(concat(right, -1), {.reverse = true})));
        },
    .saves = save::input(0),
    .cases =
        [] {
          // Factors near 1, so that a product of many is neither huge nor lost.
          const auto in = [](const Shape& shape) { return uniform_input(shape, 0.6, 1.5); };
          return std::vector<OpCase>{
              {"all", {in({3, 4})}, [](Inputs x) { return prod(x[0]); }},
              {"last axis", {in({2, 67})}, [](Inputs x) { return prod(x[0], {.axes = {-1}}); }},
              {"first axis, kept", {in({5, 6})}, [](Inputs x) { return prod(x[0], {.axes = {0}, .keep = true}); }},
              {"two apart",
               {in({2, 3, 4})},
               [](Inputs x) {
                 return prod(x[0], {.axes = {0, -1}});
               }},
              {"one zero, two zeros", {value_input({3, 4}, {2, 0, 3, -1, 0, 1.5, 0, 2, 0, 0, 0, 4})}, [](Inputs x) { return prod(x[0], {.axes = {1}}); }},
              {"of nothing", {normal_input({4, 0})}, [](Inputs x) { return prod(x[0], {.axes = {1}}); }},
              {"empty result", {normal_input({0, 4})}, [](Inputs x) { return prod(x[0], {.axes = {1}}); }}};
        }};

struct ArgAttributes {
  int axis;
  bool keep;
};

template <bool greatest>
constexpr OpDef arg_op(const char* name, const char* formula, std::vector<OpCase> (*cases)()) {
  return {.name = name,
          .family = "reduce",
          .formula = formula,
          .shapes = "(..., N, ...) -> (..., 1, ...) or (...)",
          .law = "ties give the lowest index; NaN wins; of nothing: an error",
          .gradient = GradientKind::zero,
          .gradient_note = "an index has no derivative",
          .shape =
              [](Run& r) {
                define::require_floating(r, 0);
                const auto& a = r.attr<ArgAttributes>();
                const Shape out = reduced_shape(r.in(0).shape(), {a.axis}, a.keep);
                if (r.in(0).shape()[a.axis] == 0 && numel(out) > 0)
                  throw ShapeError(r.name(), cat("reducing an empty axis of ", r.in(0).shape()), "there is no such element");
                r.declare(out, DType::i64);
              },
          .forward = [](Run& r) { compute::arg_reduce(greatest, r.in(0), r.attr<ArgAttributes>().axis, r.out()); },
          .cases = cases};
}

template <Tensor (*f)(const Tensor&, index_t, bool)>
std::vector<OpCase> arg_cases() {
  return {{"last axis", {normal_input({3, 67})}, [](Inputs x) { return f(x[0], -1, false); }},
          {"first axis, kept", {normal_input({5, 4})}, [](Inputs x) { return f(x[0], 0, true); }},
          {"ties", {value_input({6}, {1, 3, 3, 0, 0, 3})}, [](Inputs x) { return f(x[0], 0, false); }},
          {"empty", {normal_input({0, 4})}, [](Inputs x) { return f(x[0], 1, false); }}};
}

const OpDef argmax_op = arg_op<true>("argmax", R"(y = \arg\max_i x_i)", arg_cases<argmax>);
const OpDef argmin_op = arg_op<false>("argmin", R"(y = \arg\min_i x_i)", arg_cases<argmin>);

// For ops that reduce one last axis: the axes named are brought there and joined first.
Tensor reduce_rows(const OpDef& op, const Tensor& x, const ReduceOptions& options) {
  const auto a = define::normalised(x, options, op.name);
  Dims order;
  for (int i = 0, next = 0; i < x.rank(); ++i) {
    if (next < a.axes.rank() && a.axes[next] == i) ++next;
    else order.push_back(i);
  }
  Shape rows = reduced_shape(x.shape(), a.axes, false);
  for (index_t axis : a.axes) order.push_back(axis);
  rows.push_back(reduced_count(x.shape(), a.axes));
  const Tensor flat = reshape(permute(x, order), rows);
  const Tensor y = apply(op, {&flat}, ReduceAttributes{{rows.rank() - 1}, false});
  return a.keep ? reshape(y, reduced_shape(x.shape(), a.axes, true)) : y;
}

}  // namespace

Tensor sum(const Tensor& x, const ReduceOptions& options) { return apply(sum_op, {&x}, define::normalised(x, options, "sum")); }
Tensor mean(const Tensor& x, const ReduceOptions& options) { return apply(mean_op, {&x}, define::normalised(x, options, "mean")); }
Tensor max(const Tensor& x, const ReduceOptions& options) { return apply(max_op, {&x}, define::normalised(x, options, "max")); }
Tensor min(const Tensor& x, const ReduceOptions& options) { return apply(min_op, {&x}, define::normalised(x, options, "min")); }
Tensor logsumexp(const Tensor& x, const ReduceOptions& options) { return reduce_rows(logsumexp_op, x, options); }
Tensor prod(const Tensor& x, const ReduceOptions& options) { return reduce_rows(prod_op, x, options); }
Tensor argmax(const Tensor& x, index_t axis, bool keep) { return apply(argmax_op, {&x}, ArgAttributes{normalize_axis(axis, x.rank(), "argmax"), keep}); }
Tensor argmin(const Tensor& x, index_t axis, bool keep) { return apply(argmin_op, {&x}, ArgAttributes{normalize_axis(axis, x.rank(), "argmin"), keep}); }

std::span<const OpDef* const> reduce_ops() {
  static const OpDef* const all[] = {&sum_op, &mean_op, &max_op, &min_op, &logsumexp_op, &prod_op, &argmax_op, &argmin_op};
  return all;
}

}  // namespace gradus
