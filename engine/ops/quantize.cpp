#include "engine/ops/quantize.hpp"

#include "engine/ops/distance.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/loss_parts.hpp"
#include "engine/ops/matmul.hpp"

namespace gradus {
namespace {

using define::Inputs;
using define::ParameterAttributes;
using define::reduced;

// The nearest code of each token: its index and its coordinates.
struct Nearest {
  Nearest(const Tensor& z, const Tensor& codebook) : distance(squared_distance(z, codebook)), index(argmin(distance, -1)), code(embedding(codebook, index)) {}
  // What is passed on; a token, or a book, with a NaN is near to nothing.
  [[nodiscard]] Tensor value() const {
    const Tensor least = min(distance, {.axes = {-1}, .keep = true});
    return where(equal_to(least, least), code, least);
  }
  Tensor distance, index, code;
};

// ||sg(z) - e||^2 + commitment ||z - sg(e)||^2 of each token.
Tensor both_pulls(const Tensor& z, const Tensor& code, const Number& commitment) {
  const Tensor book = sum(square(stop_gradient(z) - code), {.axes = {-1}}), token = sum(square(z - stop_gradient(code)), {.axes = {-1}});
  return book + define::times(token, commitment);
}

void require_codebook(const Run& r) {
  define::require_floating(r, 0);
  define::require_same_dtype(r, 0, 1);
  const Shape &z = r.in(0).shape(), &book = r.in(1).shape();
  if (z.rank() < 2 || book.rank() != 2 || z.back() != book.back())
    throw ShapeError(r.name(), cat("tokens ", z, ", codebook ", book), "give (..., T, D) and (K, D)");
  if (book[0] == 0) throw ShapeError(r.name(), "the codebook is empty", "give at least one code");
}

const OpDef straight_through_op = {
    .name = "straight_through",
    .family = "control",
    .formula = R"(y = v,\ \partial y / \partial c = 1)",
    .shapes = "(...), (...) -> (...)",
    .law = "value of the first, gradient of the second",
    .gradient = GradientKind::surrogate,
    .gradient_note = "the identity of the carrier",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          define::require_same_dtype(r, 0, 1);
          if (r.in(0).shape() != r.in(1).shape())
            throw ShapeError("straight_through", cat("value ", r.in(0).shape(), ", carrier ", r.in(1).shape()), "both must agree");
          r.declare(r.in(0).shape(), r.in(0).dtype());
        },
    .forward = [](Run& r) { r.out() = r.in(0).detached(); },
    .vjp = [](Vjp& b) { b.to(1, b.grad()); },
    .is_view = true,
    .cases =
        [] {
          const auto call = [](Inputs x) { return straight_through(x[0], x[1]); };
          const auto carrier = [](Inputs x) { return x[1]; };
          return std::vector<OpCase>{{"matrix", {normal_input({3, 4}), normal_input({3, 4})}, call, false, carrier},
                                     {"vector of 67", {normal_input({67}), normal_input({67})}, call, false, carrier},
                                     {"scalar", {normal_input({}), normal_input({})}, call, false, carrier},
                                     {"empty", {normal_input({0, 3}), normal_input({0, 3})}, call, false, carrier}};
        },
};

const OpDef vector_quantize_op = {
    .name = "vector_quantize",
    .family = "loss",
    .formula = R"(y_t = e_{k(t)},\ k(t) = \arg\min_k \|z_t - e_k\|^2)",
    .shapes = "(..., T, D), (K, D) -> (..., T, D)",
    .law = "ties go to the first code; a token with a NaN, or a book with one, gives NaN",
    .gradient = GradientKind::surrogate,
    .gradient_note = "the identity of the tokens (straight-through)",
    .shape =
        [](Run& r) {
          require_codebook(r);
          r.declare(r.in(0).shape(), r.in(0).dtype());
        },
    .composite = [](Run& r) { return straight_through(Nearest(r.in(0), r.in(1)).value(), r.in(0)); },
    .cases =
        [] {
          const auto call = [](Inputs x) { return vector_quantize(x[0], x[1]); };
          const auto identity = [](Inputs x) { return x[0]; };
          return std::vector<OpCase>{{"7 tokens", {normal_input({7, 3}), normal_input({4, 3})}, call, false, identity},
                                     {"batch", {normal_input({2, 3, 2}), normal_input({5, 2})}, call, false, identity},
                                     {"one code", {normal_input({3, 2}), normal_input({1, 2})}, call, false, identity},
                                     {"empty", {normal_input({0, 3}), normal_input({4, 3})}, call, false, identity}};
        },
};

// What vq_loss borrows its gradient from: the smallest distance, each side held fixed in turn.
template <Reduction reduction>
Tensor vq_oracle(Inputs x) {
  const Number commitment = x.size() > 2 ? Number(x[2]) : Number(0.25);
  const ReduceOptions over_codes{.axes = {-1}};
  return reduced(min(squared_distance(x[0].detached(), x[1]), over_codes) + define::times(min(squared_distance(x[0], x[1].detached()), over_codes), commitment),
                 reduction);
}

const OpDef vq_loss_op = {
    .name = "vq_loss",
    .family = "loss",
    .formula = R"(y_t = \|\mathrm{sg}(z_t) - e_{k(t)}\|^2 + \beta \|z_t - \mathrm{sg}(e_{k(t)})\|^2)",
    .shapes = "(..., T, D), (K, D) -> () or (..., T)",
    .law = "ties go to the first code; codes that are nearest to nothing get no gradient",
    .gradient = GradientKind::surrogate,
    .gradient_note = "of the first term to the codes alone, of the second to the tokens alone",
    .shape =
        [](Run& r) {
          require_codebook(r);
          define::require_positive_parameter(r, "the commitment weight");
          Shape tokens = r.in(0).shape();
          tokens.erase(tokens.rank() - 1);
          define::declare_loss(r, tokens, r.attr<ParameterAttributes>().reduction);
        },
    .composite =
        [](Run& r) { return reduced(both_pulls(r.in(0), Nearest(r.in(0), r.in(1)).code, define::parameter_of(r)), r.attr<ParameterAttributes>().reduction); },
    .cases =
        [] {
          const std::vector<InputSpec> inputs{normal_input({2, 3, 2}), normal_input({4, 2})};
          return std::vector<OpCase>{
              {"mean", inputs, [](Inputs x) { return vq_loss(x[0], x[1]); }, false, vq_oracle<Reduction::mean>},
              {"sum", inputs, [](Inputs x) { return vq_loss(x[0], x[1], {.reduction = Reduction::sum}); }, false, vq_oracle<Reduction::sum>},
              {"none, commitment a tensor",
               {inputs[0], inputs[1], uniform_input({}, 0.5, 2)},
               [](Inputs x) { return vq_loss(x[0], x[1], {.commitment = x[2], .reduction = Reduction::none}); },
               false,
               vq_oracle<Reduction::none>},
              {"empty",
               {normal_input({0, 2}), normal_input({4, 2})},
               [](Inputs x) { return vq_loss(x[0], x[1], {.reduction = Reduction::sum}); },
               false,
               vq_oracle<Reduction::sum>}};
        },
};

}  // namespace

Tensor straight_through(const Tensor& value, const Tensor& carrier) { return apply(straight_through_op, {&value, &carrier}); }
Tensor vector_quantize(const Tensor& z, const Tensor& codebook) { return apply(vector_quantize_op, {&z, &codebook}); }
Tensor vq_loss(const Tensor& z, const Tensor& codebook, const VqOptions& options) {
  return define::apply_with(vq_loss_op, z, codebook, options.commitment, options.reduction);
}

Quantized hard_quantize(const Tensor& z, const Tensor& codebook, const VqOptions& options) {
  define::require_positive("hard_quantize", "the commitment weight", options.commitment.value());
  const Nearest nearest(z, codebook);
  return {.output = straight_through(nearest.value(), z),
          .codes = nearest.index,
          .loss = reduced(both_pulls(z, nearest.code, options.commitment), options.reduction)};
}

Quantized soft_quantize(const Tensor& z, const Tensor& codebook, const SoftVqOptions& options) {
  define::require_positive("soft_quantize", "the commitment weight", options.commitment.value());
  const Tensor q = boltzmann_assignment(z, codebook, options.tau);
  const Tensor average = matmul(q, codebook);
  const Nearest nearest(z, codebook);
  return {.output = options.hard_output ? straight_through(nearest.value(), average) : average,
          .codes = nearest.index,
          .loss = define::times(ddcl_quantization(z, codebook, q, {options.reduction}), options.commitment)};
}

std::span<const OpDef* const> quantize_ops() {
  static const OpDef* const all[] = {&straight_through_op, &vector_quantize_op, &vq_loss_op};
  return all;
}

}  // namespace gradus
