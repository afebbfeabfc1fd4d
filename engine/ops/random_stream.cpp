#include "engine/ops/random_stream.hpp"

#include "engine/core/random.hpp"
#include "engine/ops/define.hpp"

namespace gradus {
namespace {

using define::Inputs;

const OpDef random_stream_op = {
    .name = "random_stream",
    .family = "random",
    .formula = R"(y \sim U\{0, \dots, 2^{63} - 1\})",
    .shapes = "(...) -> ()",
    .law = "depends on the step and the pass only; the input is not read",
    .gradient = GradientKind::zero,
    .gradient_note = "an integer has no derivative",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          r.declare({}, DType::i64);
        },
    .forward = [](Run& r) { *r.out().mutable_data<std::int64_t>() = static_cast<std::int64_t>(r.noise() >> 1); },
    .cases =
        [] {
          const auto call = [](Inputs x) { return random_stream(x[0]); };
          return std::vector<OpCase>{{"scalar", {normal_input({})}, call}, {"3 x 4", {normal_input({3, 4})}, call}, {"empty", {normal_input({0})}, call}};
        },
};

struct DropoutAttributes {
  double p;
  std::uint64_t seed;
};

const OpDef dropout_by_stream_op = {
    .name = "dropout_by_stream",
    .family = "random",
    .formula = R"(y_i = [u_i \ge p]\, x_i / (1 - p),\ u_i \sim U(0, 1))",
    .shapes = "(...), i64 () -> (...)",
    .law = "what is dropped is not read; u depends on seed, stream and place only",
    .shape =
        [](Run& r) {
          define::require_dtype(r, 1, DType::i64);
          if (r.in(1).rank() != 0) throw ShapeError(r.name(), cat("the stream has shape ", r.in(1).shape()), "give a rank-0 tensor");
          const double p = r.attr<DropoutAttributes>().p;
          if (!(p >= 0 && p < 1)) throw ValueError(r.name(), cat("the probability is ", p), "0 <= p < 1");
          define::like_floating_input(r);
        },
    .forward =
        [](Run& r) {
          const Tensor x = contiguous(r.in(0));
          const auto& a = r.attr<DropoutAttributes>();
          const Random random(a.seed, static_cast<std::uint64_t>(*r.in(1).data<std::int64_t>()));
          visit_floating(x.dtype(), r.name(), [&](auto tag) {
            using T = decltype(tag);
            const T* from = x.data<T>();
            T* to = r.out().mutable_data<T>();
            const T scale = static_cast<T>(1 / (1 - a.p));
            constexpr index_t grain = 1 << 11;  // a Philox block an element
            parallel_for(x.numel(), grain, [&](index_t begin, index_t end) {
              for (index_t i = begin; i < end; ++i) to[i] = random.survives(static_cast<std::uint64_t>(i), a.p) ? scale * from[i] : T{0};
            });
          });
        },
    .vjp =
        [](Vjp& b) {
          const auto& a = b.attr<DropoutAttributes>();
          b.to(0, dropout_by_stream(b.grad(), b.input(1), a.p, a.seed));
        },
    .saves = save::input(1),
    .cases =
        [] {
          const InputSpec stream = integer_values({}, {7});
          return std::vector<OpCase>{{"half", {normal_input({5, 7}), stream}, [](Inputs x) { return dropout_by_stream(x[0], x[1], 0.5, 1); }},
                                     {"a tenth", {normal_input({67}), stream}, [](Inputs x) { return dropout_by_stream(x[0], x[1], 0.1, 2); }},
                                     {"none", {normal_input({2, 3}), stream}, [](Inputs x) { return dropout_by_stream(x[0], x[1], 0, 2); }},
                                     {"empty", {normal_input({0, 3}), stream}, [](Inputs x) { return dropout_by_stream(x[0], x[1], 0.5, 1); }}};
        },
};

}  // namespace

Tensor random_stream(const Tensor& like) { return apply(random_stream_op, {&like}); }
Tensor dropout_by_stream(const Tensor& x, const Tensor& stream, double p, std::uint64_t seed) {
  return apply(dropout_by_stream_op, {&x, &stream}, DropoutAttributes{p, seed});
}

std::span<const OpDef* const> random_stream_ops() {
  static const OpDef* const all[] = {&random_stream_op, &dropout_by_stream_op};
  return all;
}

}  // namespace gradus
