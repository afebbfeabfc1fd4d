// Losses of classification: negative log-likelihood and cross entropy.
#include "engine/ops/layout.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/loss_parts.hpp"

namespace gradus {
namespace {

using define::Inputs;
using define::reduced;
using define::weighted;

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

struct ClassAttributes {
  index_t ignore;
  double smoothing;
  Reduction reduction;
};

// Every index is one of the classes or the ignored one; a mean needs one that counts.
void check_targets(const Run& r, index_t classes) {
  const auto& a = r.attr<ClassAttributes>();
  const Tensor target = contiguous(r.in(1));
  const std::int64_t* at = target.data<std::int64_t>();
  index_t counted = 0;
  for (index_t i = 0; i < target.numel(); ++i) {
    if (a.ignore != NllOptions::none && at[i] == a.ignore) continue;
    ++counted;
    if (at[i] < 0 || at[i] >= classes)
      throw IndexError(r.name(), cat("target ", at[i], " is out of range for ", classes, " classes"), "classes go from 0; ignore_index names others");
  }
  if (counted == 0 && target.numel() > 0 && a.reduction == Reduction::mean)
    throw ValueError(r.name(), cat("all ", target.numel(), " targets are ignored, so that there is no mean"), "skip the batch, or sum");
}

void check_soft_labels(const Run& r) {
  define::require_same_dtype(r, 0, 1);
  if (r.in(1).shape() != r.in(0).shape())
    throw ShapeError(r.name(), cat("logits ", r.in(0).shape(), ", soft labels ", r.in(1).shape()), "give one label for each class, or indices (i64)");
  if (r.attr<ClassAttributes>().ignore != NllOptions::none) throw ValueError(r.name(), "ignore_index with soft labels", "it is for class indices");
}

template <bool soft_labels>
void class_shapes(Run& r) {
  const auto& a = r.attr<ClassAttributes>();
  define::require_floating(r, 0);
  const Shape& shape = r.in(0).shape();
  if (shape.empty()) throw ShapeError(r.name(), "the input has rank 0", "give (..., C)");
  const index_t classes = shape.back();
  Shape rows = shape;
  rows.erase(rows.rank() - 1);
  if (!(a.smoothing >= 0 && a.smoothing < 1)) throw ValueError(r.name(), cat("label smoothing of ", a.smoothing), "it is in [0, 1)");
  if (r.inputs() > 2) {
    define::require_same_dtype(r, 0, 2);
    if (r.in(2).shape() != Shape{classes})
      throw ShapeError(r.name(), cat("class weights ", r.in(2).shape(), " for ", classes, " classes"), "give one weight for each class");
  }
  if (soft_labels && is_floating(r.in(1).dtype())) {
    check_soft_labels(r);
  } else {
    define::require_dtype(r, 1, DType::i64);
    if (r.in(1).shape() != rows)
      throw ShapeError(r.name(), cat("input ", shape, ", targets ", r.in(1).shape()), cat("give one class for each row, shape ", rows));
    check_targets(r, classes);
  }
  define::declare_loss(r, rows, a.reduction);
}

// Which targets count; no tensor when all do.
Tensor kept_targets(const Run& r) {
  const index_t ignore = r.attr<ClassAttributes>().ignore;
  return ignore == NllOptions::none ? Tensor() : not_equal(r.in(1), scalar_like(r.in(1), static_cast<double>(ignore)));
}

// The input with ignored rows replaced by zeros: whatever they hold is seen neither forward nor backward.
Tensor kept_rows(const Run& r, const Tensor& kept) { return kept.defined() ? where(unsqueeze(kept, -1), r.in(0), 0.0) : r.in(0); }

// What is gathered with: a valid class for targets that are ignored.
Tensor places(const Run& r, const Tensor& kept) { return kept.defined() ? where(kept, r.in(1), 0.0) : r.in(1); }

Tensor at_target(const Tensor& log_p, const Tensor& target) { return squeeze(gather(log_p, -1, unsqueeze(target, -1)), -1); }

// From the log-probabilities of the targets, and of all classes when labels are smoothed, to the loss.
Tensor of_indices(const Run& r, const Tensor& target, const Tensor& picked, const Tensor& log_p, const Tensor& kept) {
  const auto& a = r.attr<ClassAttributes>();
  const bool has_weights = r.inputs() > 2;
  Tensor weights, loss;
  if (has_weights) {
    weights = reshape(index_select(r.in(2), 0, reshape(target, {target.numel()})), target.shape());
    if (kept.defined()) weights = where(kept, weights, 0.0);
    loss = -weighted(weights, picked, minus_infinity);
  } else {
    loss = -picked;
  }
  if (a.smoothing > 0) {
    const Tensor all = has_weights ? weighted(r.in(2), log_p, minus_infinity) : log_p;
    loss = (1 - a.smoothing) * loss - (a.smoothing / static_cast<double>(log_p.size(-1))) * sum(all, {.axes = {-1}});
  }
  if (kept.defined()) loss = where(kept, loss, 0.0);
  if (a.reduction != Reduction::mean || (!has_weights && !kept.defined())) return reduced(loss, a.reduction);
  return sum(loss) / sum(has_weights ? weights : cast(kept, loss.dtype()));
}

Tensor of_soft_labels(const Run& r, const Tensor& log_p) {
  const auto& a = r.attr<ClassAttributes>();
  Tensor labels = r.in(1);
  if (a.smoothing > 0) labels = (1 - a.smoothing) * labels + a.smoothing / static_cast<double>(log_p.size(-1));
  if (r.inputs() > 2) labels = labels * r.in(2);
  return reduced(-sum(weighted(labels, log_p, minus_infinity), {.axes = {-1}}), a.reduction);
}

// Calls f(rows, n, first row, count) for all rows, in parallel.
template <class F>
void for_rows(const Tensor& logits, F&& f) {
  const index_t n = logits.size(-1);
  compute::parallel_rows(n > 0 ? logits.numel() / n : 0, n, f);
}

// ln softmax(x) at one class a row: neither forward nor backward keeps a probability for every class.
const OpDef log_softmax_at_op = {
    .name = "log_softmax_at",
    .family = "normalize",
    .formula = R"(y_i = \ln \mathrm{softmax}(x_i)_{t_i})",
    .shapes = "(..., C), indices (...) -> (...)",
    .law = "log_softmax then gather: a masked class has -inf and gradient 0; an index out of range is an error that names it",
    .shape =
        [](Run& r) {
          class_shapes<false>(r);
          Shape sums = r.in(1).shape();
          sums.push_back(2);
          r.declare(sums, r.in(0).dtype());  // what the kernel subtracts from a row
        },
    .forward =
        [](Run& r) {
          const Tensor x = contiguous(r.in(0)), target = contiguous(r.in(1));
          visit_floating(x.dtype(), "log_softmax_at", [&](auto tag) {
            using T = decltype(tag);
            const index_t n = x.size(-1);
            const T* from = x.data<T>();
            const std::int64_t* t = target.data<std::int64_t>();
            T *to = r.out(0).mutable_data<T>(), *sums = r.out(1).mutable_data<T>();
            for_rows(x, [&](index_t i, index_t rows) { kernels::active<T>().softmax.log_softmax_at(from + i * n, rows, n, t + i, to + i, sums + 2 * i); });
          });
        },
    .vjp =
        [](Vjp& b) {
          const Tensor reached = where(equal_to(b.output(), minus_infinity), 0.0, b.grad()), g = unsqueeze(reached, -1);
          b.to(0, scatter_add(-(softmax(b.input(0)) * g), -1, unsqueeze(b.input(1), -1), g));
        },
    .fused_vjp =
        [](Vjp& b) {
          const Tensor x = contiguous(b.input(0)), target = contiguous(b.input(1)), value = b.output(0), sums = b.output(1), upstream = contiguous(b.grad());
          Tensor gx = Tensor::empty(x.shape(), x.dtype());
          visit_floating(x.dtype(), "log_softmax_at", [&](auto tag) {
            using T = decltype(tag);
            const index_t n = x.size(-1);
            const T *from = x.data<T>(), *y = value.data<T>(), *g = upstream.data<T>(), *s = sums.data<T>();
            const std::int64_t* t = target.data<std::int64_t>();
            T* to = gx.mutable_data<T>();
            for_rows(x, [&](index_t i, index_t rows) {
              kernels::active<T>().softmax.log_softmax_at_backward(from + i * n, y + i, g + i, s + 2 * i, rows, n, t + i, to + i * n);
            });
          });
          b.to(0, gx);
        },
    .composite = [](Run& r) { return at_target(log_softmax(r.in(0)), r.in(1)); },
    .saves = save::inputs | save::output,
    .cases =
        [] {
          const auto call = [](Inputs x) { return log_softmax_at(x[0], x[1]); };
          return std::vector<OpCase>{{"4 rows", {normal_input({4, 5}), integer_input({4}, 5)}, call},
                                     {"batch", {normal_input({2, 3, 67}), integer_input({2, 3}, 67)}, call},
                                     {"one row", {normal_input({6}), integer_input({}, 6)}, call},
                                     {"masked classes",
                                      {value_input({3, 3}, {1, minus_infinity, 2, 3, minus_infinity, 4, minus_infinity, minus_infinity, minus_infinity}),
                                       integer_values({3}, {0, 1, 2})},
                                      call,
                                      true},
                                     {"empty", {normal_input({0, 3}), integer_input({0}, 3)}, call}};
        },
};

// Rows of every kind of input, the same for both losses: all reductions, ignored targets, weights.
template <class Options, Tensor (*f)(const Tensor&, const Tensor&, const Options&)>
std::vector<OpCase> index_cases() {
  return {{"mean", {normal_input({4, 5}), integer_input({4}, 5)}, [](Inputs x) { return f(x[0], x[1], {}); }},
          {"sum", {normal_input({67, 3}), integer_input({67}, 3)}, [](Inputs x) { return f(x[0], x[1], {.reduction = Reduction::sum}); }},
          {"none", {normal_input({2, 3, 4}), integer_input({2, 3}, 4)}, [](Inputs x) { return f(x[0], x[1], {.reduction = Reduction::none}); }},
          {"one row", {normal_input({6}), integer_input({}, 6)}, [](Inputs x) { return f(x[0], x[1], {}); }},
          {"ignored targets", {normal_input({5, 3}), integer_values({5}, {1, -1, 0, 2, -1})}, [](Inputs x) { return f(x[0], x[1], {.ignore_index = -1}); }},
          {"class weights",
           {normal_input({5, 3}), integer_input({5}, 3), uniform_input({3}, 0.3, 2)},
           [](Inputs x) { return f(x[0], x[1], {.class_weights = x[2]}); }},
          {"class weights and ignored targets",
           {normal_input({5, 3}), integer_values({5}, {1, 7, 0, 2, 7}), uniform_input({3}, 0.3, 2)},
           [](Inputs x) { return f(x[0], x[1], {.ignore_index = 7, .class_weights = x[2]}); }},
          {"empty", {normal_input({0, 3}), integer_input({0}, 3)}, [](Inputs x) { return f(x[0], x[1], {.reduction = Reduction::sum}); }}};
}

const OpDef nll_op = {.name = "nll_loss",
                      .family = "loss",
                      .formula = R"(y_i = -w_{t_i} \ln p_{i t_i})",
                      .shapes = "(..., C), indices (...), optional weights (C) -> () or (...)",
                      .law = "the mean is over targets that count, by weight; none counts: an error; ignored rows are not read; a class of weight 0 costs 0",
                      .shape = class_shapes<false>,
                      .composite =
                          [](Run& r) {
                            const Tensor kept = kept_targets(r), log_p = kept_rows(r, kept), target = places(r, kept);
                            return of_indices(r, target, at_target(log_p, target), log_p, kept);
                          },
                      .cases = index_cases<NllOptions, nll_loss>};

std::vector<OpCase> cross_entropy_cases() {
  auto all = index_cases<CrossEntropyOptions, cross_entropy>();
  const auto add = [&](const char* name, std::vector<InputSpec> inputs, Tensor (*call)(Inputs)) { all.push_back({name, std::move(inputs), call}); };
  add("label smoothing", {normal_input({4, 5}), integer_input({4}, 5)}, [](Inputs x) { return cross_entropy(x[0], x[1], {.label_smoothing = 0.1}); });
  add("label smoothing, weights and ignored targets", {normal_input({5, 3}), integer_values({5}, {1, 7, 0, 2, 7}), uniform_input({3}, 0.3, 2)},
      [](Inputs x) { return cross_entropy(x[0], x[1], {.ignore_index = 7, .label_smoothing = 0.2, .class_weights = x[2]}); });
  add("soft labels", {normal_input({4, 5}), uniform_input({4, 5}, 0.1, 1)}, [](Inputs x) { return cross_entropy(x[0], x[1]); });
  add("soft labels, smoothed and weighted", {normal_input({2, 3, 4}), uniform_input({2, 3, 4}, 0.1, 1), uniform_input({4}, 0.3, 2)},
      [](Inputs x) { return cross_entropy(x[0], x[1], {.label_smoothing = 0.3, .class_weights = x[2], .reduction = Reduction::none}); });
  add("large logits", {value_input({2, 3}, {-431, 279, 427, 1e8, 1e8, 1e8}), integer_values({2}, {0, 2})},
      [](Inputs x) { return cross_entropy(x[0], x[1], {.reduction = Reduction::none}); });
  all.back().at_kink = true;  // 1e8 plus a step of a thousandth has no digits left for differences
  return all;
}

const OpDef cross_entropy_op = {.name = "cross_entropy",
                                .family = "loss",
                                .formula = R"(y_i = -\sum_c w_c t_{ic} \ln \mathrm{softmax}(x_i)_c)",
                                .shapes = "(..., C), indices (...) or labels (..., C), optional weights (C) -> () or (...)",
                                .law =
                                    "equal logits of any size: ln C; 0 ln 0 = 0; the mean is over targets that count, by weight; none counts: an error; "
                                    "ignored rows are not read",
                                .shape = class_shapes<true>,
                                .composite =
                                    [](Run& r) {
                                      if (is_floating(r.in(1).dtype())) return of_soft_labels(r, log_softmax(r.in(0)));
                                      const Tensor kept = kept_targets(r), logits = kept_rows(r, kept), target = places(r, kept);
                                      if (r.attr<ClassAttributes>().smoothing == 0) return of_indices(r, target, log_softmax_at(logits, target), {}, kept);
                                      const Tensor log_p = log_softmax(logits);
                                      return of_indices(r, target, at_target(log_p, target), log_p, kept);
                                    },
                                .cases = cross_entropy_cases};

Tensor apply_classes(const OpDef& op, const Tensor& x, const Tensor& target, const Tensor& weights, const ClassAttributes& attributes) {
  return weights.defined() ? apply(op, {&x, &target, &weights}, attributes) : apply(op, {&x, &target}, attributes);
}

}  // namespace

Tensor log_softmax_at(const Tensor& logits, const Tensor& target) {
  return apply(log_softmax_at_op, {&logits, &target}, ClassAttributes{NllOptions::none, 0, Reduction::none});
}
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, const NllOptions& o) {
  return apply_classes(nll_op, log_probabilities, target, o.class_weights, {o.ignore_index, 0, o.reduction});
}
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o) {
  return apply_classes(cross_entropy_op, logits, target, o.class_weights, {o.ignore_index, o.label_smoothing, o.reduction});
}

std::span<const OpDef* const> classification_loss_ops() {
  static const OpDef* const all[] = {&log_softmax_at_op, &nll_op, &cross_entropy_op};
  return all;
}

}  // namespace gradus
