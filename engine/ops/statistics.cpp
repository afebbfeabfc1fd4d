// Reductions composed of others: var, std, norm, all, any.
#include <cmath>

#include "engine/ops/reduce_rules.hpp"

namespace gradus {
namespace {

using define::Inputs;
using define::reduce_cases;
using define::ReduceAttributes;
using define::reduced_count;

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr const char* reduced_shapes = "(..., N, ...) -> (..., 1, ...) or (...)";

// sqrt(x) with gradient 0 at 0.
Tensor root(const Tensor& x) {
  const Tensor zero = equal_to(x, 0.0);
  return where(zero, 0.0, sqrt(where(zero, 1.0, x)));
}

// ---- variance --------------------------------------------------------------------------------------------------------

struct VarAttributes {
  ReduceAttributes reduce;
  index_t correction;
};

void declare_variance(Run& r) {
  define::require_floating(r, 0);
  const auto& [reduce, correction] = r.attr<VarAttributes>();
  const index_t n = reduced_count(r.in(0).shape(), reduce.axes);
  if (correction < 0) throw ValueError(r.name(), cat("a correction of ", correction), "give 0 (population) or 1 (sample)");
  if (n <= correction && numel(reduced_shape(r.in(0).shape(), reduce.axes, false)) > 0)
    throw ShapeError(r.name(), cat(n, " elements with correction ", correction), "give more elements than the correction");
}

template <Tensor (*f)(const Tensor&, const ReduceOptions&, index_t)>
Tensor of_population(const Tensor& x, const ReduceOptions& options) {
  return f(x, options, 0);
}
template <Tensor (*f)(const Tensor&, const ReduceOptions&, index_t)>
std::vector<OpCase> variance_cases() {
  auto cases = reduce_cases<of_population<f>>();
  cases.push_back({"of a sample", {normal_input({4, 3})}, [](Inputs x) { return f(x[0], {.axes = {1}}, 1); }});
  cases.push_back({"a constant row", {value_input({2, 3}, {3, 3, 3, 1, 2, 4})}, [](Inputs x) { return f(x[0], {.axes = {1}}, 0); }, true});
  return cases;
}

const OpDef var_op = {.name = "var",
                      .family = "reduce",
                      .formula = R"(y = \frac1{n - c} \sum_i (x_i - \bar x)^2)",
                      .shapes = reduced_shapes,
                      .law = "0 with gradient 0 for a constant row; no more elements than the correction: an error",
                      .shape = declare_variance,
                      .composite =
                          [](Run& r) {
                            const auto& [reduce, correction] = r.attr<VarAttributes>();
                            const Tensor& x = r.in(0);
                            const Tensor squares = square(x - mean(x, {.axes = reduce.axes, .keep = true}));
                            const auto n = static_cast<double>(reduced_count(x.shape(), reduce.axes) - correction);
                            return sum(squares, {.axes = reduce.axes, .keep = reduce.keep}) / n;
                          },
                      .cases = variance_cases<var>};

const OpDef std_op = {.name = "std",
                      .family = "reduce",
                      .formula = R"(y = \sqrt{\frac1{n - c} \sum_i (x_i - \bar x)^2})",
                      .shapes = reduced_shapes,
                      .law = "0 with gradient 0 for a constant row; no more elements than the correction: an error",
                      .shape = declare_variance,
                      .composite =
                          [](Run& r) {
                            const auto& [reduce, correction] = r.attr<VarAttributes>();
                            return root(var(r.in(0), {.axes = reduce.axes, .keep = reduce.keep}, correction));
                          },
                      .cases = variance_cases<stddev>};

// ---- norm ------------------------------------------------------------------------------------------------------------

struct NormAttributes {
  ReduceAttributes reduce;
  double p;
};

template <int p>  // 0: infinity
Tensor norm_of(const Tensor& x, const ReduceOptions& options) {
  return norm(x, p == 0 ? inf : p, options);
}

const OpDef norm_op = {
    .name = "norm",
    .family = "reduce",
    .formula = R"(y = \left(\sum_i |x_i|^p\right)^{1/p},\ p \in \{1, 2\};\quad y = \max_i |x_i|,\ p = \infty)",
    .shapes = reduced_shapes,
    .law = "gradient 0 at the zero vector; p = inf: ties share the gradient evenly; of nothing: 0",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          const double p = r.attr<NormAttributes>().p;
          if (p != 1 && p != 2 && p != inf) throw ValueError("norm", cat("p is ", p), "give 1, 2 or infinity");
        },
    .composite =
        [](Run& r) {
          const auto& [reduce, p] = r.attr<NormAttributes>();
          const ReduceOptions options{.axes = reduce.axes, .keep = reduce.keep};
          if (p == 2) return root(sum(square(r.in(0)), options));
          const bool of_nothing = reduced_count(r.in(0).shape(), reduce.axes) == 0;
          return p == 1 || of_nothing ? sum(abs(r.in(0)), options) : max(abs(r.in(0)), options);
        },
    .cases =
        [] {
          auto cases = reduce_cases<norm_of<2>>();
          cases.push_back({"p = 1", {normal_input({3, 4})}, [](Inputs x) { return norm(x[0], 1, {.axes = {1}}); }});
          cases.push_back({"p = inf", {normal_input({3, 4})}, [](Inputs x) { return norm(x[0], inf, {.axes = {1}}); }});
          cases.push_back({"p = inf, kept", {normal_input({3, 4})}, [](Inputs x) { return norm(x[0], inf, {.axes = {0}, .keep = true}); }});
          cases.push_back({"a zero row", {value_input({2, 2}, {0, 0, 3, 4})}, [](Inputs x) { return norm(x[0], 2, {.axes = {1}}); }, true});
          cases.push_back({"of nothing", {normal_input({3, 0})}, [](Inputs x) { return norm(x[0], inf, {.axes = {1}}); }});
          return cases;
        },
};

// ---- all and any -----------------------------------------------------------------------------------------------------

// How many are true. Rounding of a large count does not matter: only zero does.
Tensor count_true(const Run& r, const Tensor& x) {
  const auto& a = r.attr<ReduceAttributes>();
  return sum(cast(x, DType::f32), {.axes = a.axes, .keep = a.keep});
}

template <Tensor (*f)(const Tensor&, const ReduceOptions&)>
constexpr OpDef quantifier(const char* name, const char* formula, const char* law, Tensor (*composite)(Run&)) {
  return {.name = name,
          .family = "reduce",
          .formula = formula,
          .shapes = reduced_shapes,
          .dtypes = "bool",
          .law = law,
          .gradient = GradientKind::zero,
          .gradient_note = "a bool has no derivative",
          .shape = [](Run& r) { define::require_dtype(r, 0, DType::boolean); },
          .composite = composite,
          .cases =
              [] {
                return std::vector<OpCase>{{"all axes", {boolean_input({3, 2})}, [](Inputs x) { return f(x[0], {}); }},
                                           {"last axis", {boolean_input({9, 3})}, [](Inputs x) { return f(x[0], {.axes = {-1}}); }},
                                           {"first axis, kept", {boolean_input({2, 9})}, [](Inputs x) { return f(x[0], {.axes = {0}, .keep = true}); }},
                                           {"of nothing", {boolean_input({2, 0})}, [](Inputs x) { return f(x[0], {.axes = {1}}); }},
                                           {"empty", {boolean_input({0, 2})}, [](Inputs x) { return f(x[0], {.axes = {1}}); }}};
              }};
}

const OpDef all_op =
    quantifier<all>("all", R"(y = \forall i: x_i)", "of nothing: true", [](Run& r) { return equal_to(count_true(r, logical_not(r.in(0))), 0.0); });
const OpDef any_op = quantifier<any>("any", R"(y = \exists i: x_i)", "of nothing: false", [](Run& r) { return greater(count_true(r, r.in(0)), 0.0); });

}  // namespace

Tensor var(const Tensor& x, const ReduceOptions& options, index_t correction) {
  return apply(var_op, {&x}, VarAttributes{define::normalised(x, options, "var"), correction});
}
Tensor stddev(const Tensor& x, const ReduceOptions& options, index_t correction) {
  return apply(std_op, {&x}, VarAttributes{define::normalised(x, options, "std"), correction});
}
Tensor norm(const Tensor& x, double p, const ReduceOptions& options) { return apply(norm_op, {&x}, NormAttributes{define::normalised(x, options, "norm"), p}); }
Tensor all(const Tensor& x, const ReduceOptions& options) { return apply(all_op, {&x}, define::normalised(x, options, "all")); }
Tensor any(const Tensor& x, const ReduceOptions& options) { return apply(any_op, {&x}, define::normalised(x, options, "any")); }

std::span<const OpDef* const> statistics_ops() {
  static const OpDef* const ops[] = {&var_op, &std_op, &norm_op, &all_op, &any_op};
  return ops;
}

}  // namespace gradus
