// The Gumbel-softmax map: a perturbation, a softmax, and a hard choice that lends its gradient.
#include <algorithm>
#include <cmath>

#include "engine/core/random.hpp"
#include "engine/ops/map_rows.hpp"
#include "engine/ops/maps.hpp"

namespace gradus {
namespace {

using define::Inputs;
using define::MapAttributes;

const OpDef add_gumbel_op = {
    .name = "add_gumbel",
    .family = "normalize",
    .formula = R"(y = x - \ln(-\ln u),\ u \sim U(0, 1))",
    .shapes = "(...) -> (...)",
    .law = "u lies in the open interval, so that the noise is finite; it depends on seed, step and place only",
    .shape = define::like_floating_input,
    .forward =
        [](Run& r) {
          const Tensor x = contiguous(r.in(0));
          const Random random(r.attr<std::uint64_t>(), r.noise());
          visit_floating(x.dtype(), "add_gumbel", [&](auto tag) {
            using T = decltype(tag);
            const T* from = x.data<T>();
            T* to = r.out().mutable_data<T>();
            constexpr index_t grain = 1 << 8;  // two logarithms and a Philox block an element
            parallel_for(x.numel(), grain, [&](index_t begin, index_t end) {
              for (index_t i = begin; i < end; ++i)
                to[i] = static_cast<T>(static_cast<double>(from[i]) - portable_log(-portable_log(random.uniform(static_cast<std::uint64_t>(i)))));
            });
          });
        },
    .vjp = [](Vjp& b) { b.to(0, b.grad()); },
    .cases =
        [] {
          const auto call = [](Inputs x) { return add_gumbel(x[0], 3); };
          return std::vector<OpCase>{{"scalar", {normal_input({})}, call},
                                     {"3 x 5", {normal_input({3, 5})}, call},
                                     {"long", {normal_input({5, 67})}, [](Inputs x) { return add_gumbel(x[0]); }},
                                     {"empty", {normal_input({0, 3})}, call}};
        },
};

const OpDef straight_through_hardmax_op = {
    .name = "straight_through_hardmax",
    .family = "normalize",
    .formula = R"(y_i = [i = \arg\max_j x_j])",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = "of weights: ties go to the lowest index; a row of zeros stays one; NaN in a row: NaN",
    .gradient = GradientKind::surrogate,
    .gradient_note = "straight through: the gradient of the identity",
    .shape = define::like_input_along_axis,
    .forward =
        [](Run& r) {
          define::along_axis<1>({r.in(0)}, r.out(), r.attr<MapAttributes>().axis,
                                []<class T>(const std::array<const T*, 1>& in, T* y, index_t rows, index_t n) {
                                  const T* x = in[0];
                                  for (index_t row = 0; row < rows; ++row, x += n, y += n) {
                                    const bool poisoned = std::any_of(x, x + n, [](T v) { return std::isnan(v); });
                                    std::fill_n(y, n, poisoned ? std::numeric_limits<T>::quiet_NaN() : T{0});
                                    const index_t top = std::max_element(x, x + n) - x;
                                    if (!poisoned && x[top] > 0) y[top] = 1;
                                  }
                                });
        },
    .vjp = [](Vjp& b) { b.to(0, b.grad()); },
    .cases =
        [] {
          const auto identity = [](Inputs x) { return x[0] * 1.0; };
          return std::vector<OpCase>{
              {"3 x 7", {uniform_input({3, 7}, 0, 1)}, [](Inputs x) { return straight_through_hardmax(x[0]); }, false, identity},
              {"first axis", {uniform_input({4, 3}, 0, 1)}, [](Inputs x) { return straight_through_hardmax(x[0], 0); }, false, identity},
              {"ties and zeros", {value_input({2, 3}, {0.2, 0.4, 0.4, 0, 0, 0})}, [](Inputs x) { return straight_through_hardmax(x[0]); }, true, identity},
              {"empty", {uniform_input({0, 3}, 0, 1)}, [](Inputs x) { return straight_through_hardmax(x[0]); }, false, identity}};
        },
};

// Inputs: the scores, the inverse temperature if it is a tensor, the mask if there is one.
struct GumbelAttributes {
  MapAttributes map;
  std::uint64_t seed;
  bool hard, tensor_temperature, masked;
};

// The soft sample of the same step's noise: what a hard one borrows its gradient from.
template <index_t axis>
Tensor soft_sample(Inputs x) {
  return softmax(add_gumbel(x[0], 5), {.axis = axis, .inverse_temperature = 2.0});
}
template <index_t axis, bool hard>
Tensor sample(Inputs x) {
  return gumbel_softmax(x[0], {.axis = axis, .inverse_temperature = 2.0, .hard = hard, .seed = 5});
}

const OpDef gumbel_softmax_op = {
    .name = "gumbel_softmax",
    .family = "normalize",
    .formula = R"(y = \mathrm{softmax}(\beta (x - \ln(-\ln u))),\ u \sim U(0, 1))",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .law = "as softmax; a hard sample has one weight of 1, at the largest of the soft one",
    .gradient = GradientKind::surrogate,
    .gradient_note = "exact of a soft sample; a hard one has the gradient of its soft sample (straight through)",
    .shape = define::like_input_along_axis,
    .composite =
        [](Run& r) {
          const auto& a = r.attr<GumbelAttributes>();
          const Number beta = a.tensor_temperature ? Number(r.in(1)) : Number(a.map.inverse_temperature);
          const Tensor soft =
              softmax(add_gumbel(r.in(0), a.seed), {.axis = a.map.axis, .inverse_temperature = beta, .mask = a.masked ? r.in(r.inputs() - 1) : Tensor()});
          return a.hard ? straight_through_hardmax(soft, a.map.axis) : soft;
        },
    .cases =
        [] {
          return std::vector<OpCase>{{"soft", {normal_input({3, 7})}, sample<-1, false>, false, soft_sample<-1>},
                                     {"hard", {normal_input({3, 7})}, sample<-1, true>, false, soft_sample<-1>},
                                     {"hard, first axis", {normal_input({5, 3})}, sample<0, true>, false, soft_sample<0>},
                                     {"temperature a tensor, masked",
                                      {normal_input({3, 5}), uniform_input({}, 0.5, 2), boolean_input({5})},
                                      [](Inputs x) { return gumbel_softmax(x[0], {.inverse_temperature = x[1], .mask = x[2]}); },
                                      false,
                                      [](Inputs x) { return softmax(add_gumbel(x[0]), {.inverse_temperature = x[1], .mask = x[2]}); }},
                                     {"empty", {normal_input({0, 4})}, sample<-1, false>, false, soft_sample<-1>}};
        },
};

}  // namespace

Tensor add_gumbel(const Tensor& x, std::uint64_t seed) { return apply(add_gumbel_op, {&x}, seed); }
Tensor straight_through_hardmax(const Tensor& weights, index_t axis) { return apply(straight_through_hardmax_op, {&weights}, MapAttributes{axis, 1}); }

Tensor gumbel_softmax(const Tensor& x, const GumbelOptions& options) {
  const Number& beta = options.inverse_temperature;
  std::vector<const Tensor*, PoolAllocator<const Tensor*>> inputs{&x};
  if (beta.is_tensor()) inputs.push_back(&beta.tensor());
  if (options.mask.defined()) inputs.push_back(&options.mask);
  const GumbelAttributes attributes{{options.axis, beta.value()}, options.seed, options.hard, beta.is_tensor(), options.mask.defined()};
  return apply(gumbel_softmax_op, inputs, &attributes, sizeof attributes);
}

std::span<const OpDef* const> gumbel_ops() {
  static const OpDef* const all[] = {&add_gumbel_op, &straight_through_hardmax_op, &gumbel_softmax_op};
  return all;
}

}  // namespace gradus
