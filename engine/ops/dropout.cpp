#include "engine/ops/dropout.hpp"

#include "engine/core/random.hpp"
#include "engine/ops/define.hpp"

namespace gradus {
namespace {

using define::Inputs;

struct DropoutAttributes {
  double p;
  std::uint64_t seed;
  bool active;
};

void require_probability(const Run& r) {
  const double p = r.attr<DropoutAttributes>().p;
  if (!(p >= 0 && p < 1)) throw ValueError(r.name(), cat("p is ", p), "the probability of omission is in [0, 1)");
}

const OpDef dropout_mask_op = {
    .name = "dropout_mask",
    .family = "random",
    .formula = R"(m_i = [u_i > p],\ u_i \sim U(0, 1))",
    .shapes = "(...) -> (...)",
    .law = "element i depends on seed, pass, place on the tape and i alone: not on x, dtype or threads",
    .gradient = GradientKind::zero,
    .gradient_note = "does not depend on x",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          require_probability(r);
          r.declare(r.in(0).shape(), DType::boolean);
        },
    .forward =
        [](Run& r) {
          const auto& a = r.attr<DropoutAttributes>();
          const Random random(a.seed, r.noise());
          bool* kept = r.out().mutable_data<bool>();
          parallel_for(r.out().numel(), compute::elementwise_grain, [&](index_t begin, index_t end) {
            std::array<float, 256> u;
            for (index_t at = begin; at < end; at += 256) {
              const auto part = std::span(u).first(static_cast<std::size_t>(std::min<index_t>(256, end - at)));
              random.fill_uniform(part, static_cast<std::uint64_t>(at));
              for (std::size_t i = 0; i < part.size(); ++i) kept[at + static_cast<index_t>(i)] = static_cast<double>(part[i]) > a.p;
            }
          });
        },
    .cases =
        [] {
          return std::vector<OpCase>{{"half", {normal_input({5, 9})}, [](Inputs x) { return dropout_mask(x[0], 0.5); }},
                                     {"another seed", {normal_input({700})}, [](Inputs x) { return dropout_mask(x[0], 0.1, 7); }},
                                     {"empty", {normal_input({0, 3})}, [](Inputs x) { return dropout_mask(x[0], 0.5); }}};
        },
};

const OpDef dropout_op = {
    .name = "dropout",
    .family = "random",
    .formula = R"(y_i = m_i x_i / (1 - p),\ m_i = [u_i > p])",
    .shapes = "(...) -> (...)",
    .law = "omitted elements are 0 with gradient 0, whatever they were; the mean is kept",
    .shape =
        [](Run& r) {
          define::like_floating_input(r);
          require_probability(r);
        },
    .composite =
        [](Run& r) {
          const auto& a = r.attr<DropoutAttributes>();
          const Tensor& x = r.in(0);
          if (!a.active || a.p == 0) return x;
          return where(dropout_mask(x, a.p, a.seed), x * (1 / (1 - a.p)), 0.0);
        },
    .cases =
        [] {
          return std::vector<OpCase>{
              {"half", {normal_input({4, 9})}, [](Inputs x) { return dropout(x[0], 0.5); }},
              {"another seed", {normal_input({67})}, [](Inputs x) { return dropout(x[0], 0.1, {.seed = 7}); }},
              {"p = 0", {normal_input({3, 4})}, [](Inputs x) { return dropout(x[0], 0); }},
              {"evaluation", {normal_input({3, 4})}, [](Inputs x) { return dropout(x[0], 0.5, {.training = false}); }},
              {"evaluation, always on", {normal_input({3, 4})}, [](Inputs x) { return dropout(x[0], 0.5, {.training = false, .always_on = true}); }},
              {"empty", {normal_input({0, 3})}, [](Inputs x) { return dropout(x[0], 0.5); }}};
        },
};

}  // namespace

Tensor dropout(const Tensor& x, double p, const DropoutOptions& options) {
  return apply(dropout_op, {&x}, DropoutAttributes{p, options.seed, options.training || options.always_on});
}
Tensor dropout_mask(const Tensor& x, double p, std::uint64_t seed) { return apply(dropout_mask_op, {&x}, DropoutAttributes{p, seed, true}); }

std::span<const OpDef* const> dropout_ops() {
  static const OpDef* const all[] = {&dropout_mask_op, &dropout_op};
  return all;
}

}  // namespace gradus
