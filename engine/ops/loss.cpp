// Losses of two tensors, element by element, and the divergence of distributions.
#include "engine/ops/loss.hpp"

#include <cmath>

#include "engine/ops/loss_parts.hpp"

namespace gradus {
namespace {

using define::declare_loss;
using define::Inputs;
using define::ParameterAttributes;
using define::reduced;

constexpr double infinity = std::numeric_limits<double>::infinity();

void require_pair(const Run& r) {
  define::require_floating(r, 0);
  define::require_same_dtype(r, 0, 1);
  if (r.in(0).shape() != r.in(1).shape())
    throw ShapeError(r.name(), cat("prediction ", r.in(0).shape(), ", target ", r.in(1).shape()), "losses do not broadcast; reshape one of them");
}

template <class Options, Tensor (*f)(const Tensor&, const Tensor&, const Options&), Reduction reduction>
Tensor call(Inputs x) {
  Options options;
  options.reduction = reduction;
  return f(x[0], x[1], options);
}

// Every reduction, and nothing at all; predictions and targets apart from each other, where kinks are.
template <class Options, Tensor (*f)(const Tensor&, const Tensor&, const Options&)>
std::vector<OpCase> cases_of(double low, double high) {
  const auto in = [&](const Shape& shape) { return uniform_input(shape, -3, 3); };
  const auto target = [&](const Shape& shape) { return uniform_input(shape, low, high); };
  return {{"mean", {in({3, 4}), target({3, 4})}, call<Options, f, Reduction::mean>},
          {"sum", {in({67}), target({67})}, call<Options, f, Reduction::sum>},
          {"none", {in({2, 3, 5}), target({2, 3, 5})}, call<Options, f, Reduction::none>},
          {"scalar", {in({}), target({})}, call<Options, f, Reduction::mean>},
          {"empty", {in({0, 3}), target({0, 3})}, call<Options, f, Reduction::sum>}};
}

template <Tensor (*elements)(const Run&)>
constexpr OpDef pair_loss(const char* name, const char* formula, const char* law, const char* note, std::vector<OpCase> (*cases)()) {
  return {.name = name,
          .family = "loss",
          .formula = formula,
          .shapes = "(...), (...) -> () or (...)",
          .law = law,
          .gradient_note = note,
          .shape =
              [](Run& r) {
                require_pair(r);
                declare_loss(r, r.in(0).shape(), r.attr<LossOptions>().reduction);
              },
          .composite = [](Run& r) { return reduced(elements(r), r.attr<LossOptions>().reduction); },
          .cases = cases};
}

const OpDef mse_op = pair_loss<[](const Run& r) { return square(r.in(0) - r.in(1)); }>("mse_loss", R"(y = (x - t)^2)", "mean of no elements: an error", "",
                                                                                       [] { return cases_of<LossOptions, mse_loss>(-2, 2); });

const OpDef l1_op = pair_loss<[](const Run& r) { return abs(r.in(0) - r.in(1)); }>(
    "l1_loss", R"(y = |x - t|)", "mean of no elements: an error", "kink at x = t: gradient 0", [] {
      auto all = cases_of<LossOptions, l1_loss>(-2, 2);
      all.push_back({"equal", {value_input({3}, {1, -2, 0}), value_input({3}, {1, -2, 0})}, [](Inputs x) { return l1_loss(x[0], x[1]); }, true});
      return all;
    });

const OpDef huber_op = {
    .name = "huber_loss",
    .family = "loss",
    .formula = R"(y = c (r - c / 2),\ r = x - t,\ c = \min(\max(r, -\delta), \delta))",
    .shapes = "(...), (...) -> () or (...)",
    .law = "delta must be finite and > 0",
    .gradient_note = "second derivative jumps at |x - t| = delta",
    .shape =
        [](Run& r) {
          require_pair(r);
          define::require_positive_parameter(r, "delta");
          declare_loss(r, r.in(0).shape(), r.attr<ParameterAttributes>().reduction);
        },
    .composite =
        [](Run& r) {
          const Tensor residual = r.in(0) - r.in(1), delta = define::as_tensor(define::parameter_of(r), residual);
          // Half of the gradient at |r| = delta through each side adds up to the slope of both.
          const Tensor clipped = minimum(maximum(residual, -delta), delta);
          return reduced(clipped * (residual - 0.5 * clipped), r.attr<ParameterAttributes>().reduction);
        },
    .cases =
        [] {
          auto all = cases_of<HuberOptions, huber_loss>(-2, 2);
          const std::vector<InputSpec> pair{value_input({2, 3}, {-3, 0.2, 1, 4, 0, 7}), value_input({2, 3}, {0, 0, 0.4, 4, 1.3, 4.2})};
          all.push_back({"delta 2.5", pair, [](Inputs x) { return huber_loss(x[0], x[1], {.delta = 2.5}); }});
          all.push_back({"delta a tensor", {pair[0], pair[1], value_input({}, {1.1})}, [](Inputs x) { return huber_loss(x[0], x[1], {.delta = x[2]}); }});
          all.push_back({"residual of delta", {value_input({2}, {1, -1}), value_input({2}, {0, 0})}, [](Inputs x) { return huber_loss(x[0], x[1]); }, true});
          return all;
        }};

// Both branches are the same analytic function, so selecting one by the sign leaves no kink at 0.
Tensor bce_elements(const Run& r) {
  const Tensor &x = r.in(0), &t = r.in(1);
  const Tensor positive = greater(x, 0.0);
  const Tensor tail = log1p(exp(where(positive, -x, x))), below = where(positive, 0.0, -x);  // together -ln s(x)
  if (r.inputs() < 3) return ((1.0 - t) * x + below) + tail;
  const Tensor weight = 1.0 + (r.in(2) - 1.0) * t;
  return ((1.0 - t) * x + weight * below) + weight * tail;
}

const OpDef bce_op = {
    .name = "bce_with_logits",
    .family = "loss",
    .formula = R"(y = -w t \ln \sigma(x) - (1 - t) \ln(1 - \sigma(x)))",
    .shapes = "(...), (...), optional weight broadcasting to (...) -> () or (...)",
    .law = "finite for finite logits, however large",
    .shape =
        [](Run& r) {
          require_pair(r);
          if (r.inputs() > 2) {
            define::require_same_dtype(r, 0, 2);
            if (broadcast_shapes(r.in(0).shape(), r.in(2).shape(), r.name()) != r.in(0).shape())
              throw ShapeError(r.name(), cat("positive weight ", r.in(2).shape(), ", logits ", r.in(0).shape()), "the weight must broadcast to the logits");
          }
          declare_loss(r, r.in(0).shape(), r.attr<LossOptions>().reduction);
        },
    .composite = [](Run& r) { return reduced(bce_elements(r), r.attr<LossOptions>().reduction); },
    .cases =
        [] {
          auto all = cases_of<BceOptions, bce_with_logits>(0, 1);
          all.push_back({"positive weight", {normal_input({4, 3}), uniform_input({4, 3}, 0, 1), uniform_input({3}, 0.5, 3)}, [](Inputs x) {
                           return bce_with_logits(x[0], x[1], {.positive_weight = x[2]});
                         }});
          all.push_back({"logits of 0 and large ones", {value_input({6}, {0, 0, -40, 40, 800, -800}), value_input({6}, {0.3, 1, 1, 0, 1, 0})}, [](Inputs x) {
                           return bce_with_logits(x[0], x[1], {.reduction = Reduction::none});
                         }});
          return all;
        }};

const OpDef hinge_op = {
    .name = "hinge_loss",
    .family = "loss",
    .formula = R"(y = \max(0, m - t s))",
    .shapes = "(...), (...) -> () or (...)",
    .law = "targets are -1 or 1",
    .gradient_note = "kink at the margin: gradient 0",
    .shape =
        [](Run& r) {
          require_pair(r);
          const double margin = r.attr<ParameterAttributes>().number;
          if (!std::isfinite(margin)) throw ValueError("hinge_loss", cat("the margin is ", margin), "it must be finite");
          declare_loss(r, r.in(0).shape(), r.attr<ParameterAttributes>().reduction);
        },
    .composite =
        [](Run& r) {
          const auto& a = r.attr<ParameterAttributes>();
          return reduced(relu(a.number - r.in(1) * r.in(0)), a.reduction);
        },
    .cases =
        [] {
          auto all = cases_of<HingeOptions, hinge_loss>(-2, 2);
          all.push_back({"margin 0.25", {value_input({4}, {0.1, 0.5, -0.2, -3}), value_input({4}, {1, 1, -1, 1})}, [](Inputs x) {
                           return hinge_loss(x[0], x[1], {.margin = 0.25, .reduction = Reduction::none});
                         }});
          all.push_back({"at the margin", {value_input({2}, {1, -1}), value_input({2}, {1, -1})}, [](Inputs x) { return hinge_loss(x[0], x[1]); }, true});
          return all;
        }};

const OpDef kl_div_op = {.name = "kl_div",
                         .family = "loss",
                         .formula = R"(y = \sum_c p_c (\ln p_c - \ln q_c))",
                         .shapes = "(..., C) of ln q, (..., C) of p -> () or (...)",
                         .law = "0 ln 0 = 0 with gradient 0; p = 0 costs nothing even where ln q is -inf",
                         .gradient_note = "the slope of p ln p at 0 is taken as 0",
                         .shape =
                             [](Run& r) {
                               require_pair(r);
                               Shape rows = r.in(0).shape();
                               if (rows.empty()) throw ShapeError("kl_div", "rank 0", "give distributions along the last axis");
                               rows.erase(rows.rank() - 1);
                               declare_loss(r, rows, r.attr<LossOptions>().reduction);
                             },
                         .composite =
                             [](Run& r) {
                               const Tensor &log_q = r.in(0), &p = r.in(1);
                               const Tensor p_log_p = p * log(where(equal_to(p, 0.0), 1.0, p));
                               return reduced(sum(p_log_p - define::weighted(p, log_q, -infinity), {.axes = {-1}}), r.attr<LossOptions>().reduction);
                             },
                         .cases =
                             [] {
                               auto all = cases_of<LossOptions, kl_div>(0.1, 1);
                               std::erase_if(all, [](const OpCase& c) { return c.inputs[0].shape.rank() == 0; });
                               all.push_back({"an impossible class",
                                              {value_input({2, 3}, {-1, -0.5, -infinity, -0.2, -3, -2}), value_input({2, 3}, {0.3, 0.7, 0, 1, 0, 0})},
                                              [](Inputs x) { return kl_div(x[0], x[1]); },
                                              true});
                               return all;
                             }};

}  // namespace

Tensor mse_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options) { return apply(mse_op, {&prediction, &target}, options); }
Tensor l1_loss(const Tensor& prediction, const Tensor& target, const LossOptions& options) { return apply(l1_op, {&prediction, &target}, options); }
Tensor huber_loss(const Tensor& prediction, const Tensor& target, const HuberOptions& options) {
  return define::apply_with(huber_op, prediction, target, options.delta, options.reduction);
}
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const BceOptions& options) {
  const LossOptions reduction{options.reduction};
  if (!options.positive_weight.defined()) return apply(bce_op, {&logits, &target}, reduction);
  return apply(bce_op, {&logits, &target, &options.positive_weight}, reduction);
}
Tensor hinge_loss(const Tensor& score, const Tensor& target, const HingeOptions& options) {
  return apply(hinge_op, {&score, &target}, ParameterAttributes{options.margin, options.reduction});
}
Tensor kl_div(const Tensor& log_q, const Tensor& p, const LossOptions& options) { return apply(kl_div_op, {&log_q, &p}, options); }

std::span<const OpDef* const> loss_ops() {
  static const OpDef* const all[] = {&mse_op, &l1_op, &huber_op, &bce_op, &hinge_op, &kl_div_op};
  return all;
}

}  // namespace gradus
