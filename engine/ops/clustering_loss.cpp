#include "engine/ops/clustering_loss.hpp"

#include "engine/ops/distance.hpp"
#include "engine/ops/loss_parts.hpp"
#include "engine/ops/matmul.hpp"

namespace gradus {
namespace {

using define::batch_of;
using define::declare_loss;
using define::Inputs;
using define::parameter_of;
using define::ParameterAttributes;
using define::reduced;

// ---- the mathematics, on distances ----------------------------------------------------------------------------------------

Tensor assignment(const Tensor& distance, const Number& tau) { return softmax(-distance, {.inverse_temperature = define::inverse(tau)}); }

// sum_k q_k D_k. Weights of 0 do not see distances that overflowed.
Tensor expected(const Tensor& q, const Tensor& distance) { return sum(define::weighted(q, distance, std::numeric_limits<double>::infinity()), {.axes = {-1}}); }

Tensor squared_norm(const Tensor& x) { return sum(square(x), {.axes = {-1}}); }

Tensor free_energy(const Tensor& distance, const Number& tau) {
  return define::times(-logsumexp(-define::times(distance, define::inverse(tau)), {.axes = {-1}}), tau);
}

// ---- shape rules ------------------------------------------------------------------------------------------------------------

// Points (..., N, D) and centres (..., K, D); the shape of their distances.
Shape distance_shape(const Run& r) {
  define::require_floating(r, 0);
  define::require_same_dtype(r, 0, 1);
  const Shape &x = r.in(0).shape(), &c = r.in(1).shape();
  if (x.rank() < 2 || c.rank() < 2 || x.back() != c.back()) throw ShapeError(r.name(), cat("points ", x, ", centres ", c), "give (..., N, D) and (..., K, D)");
  return define::with_matrix(broadcast_shapes(batch_of(x), batch_of(c), r.name()), x[x.rank() - 2], c[c.rank() - 2]);
}

Shape without_last(Shape shape) {
  shape.erase(shape.rank() - 1);
  return shape;
}

void declare_token_loss(Run& r) {
  const Shape distance = distance_shape(r);
  define::require_same_dtype(r, 0, 2);
  if (r.in(2).shape() != distance)
    throw ShapeError(r.name(), cat("assignment ", r.in(2).shape(), " for tokens ", r.in(0).shape(), " and prototypes ", r.in(1).shape()),
                     cat("give one weight for each pair, shape ", distance));
  declare_loss(r, without_last(distance), r.attr<LossOptions>().reduction);
}

// ---- ops --------------------------------------------------------------------------------------------------------------------

const OpDef smoothed_kmeans_op = {
    .name = "smoothed_kmeans_loss",
    .family = "loss",
    .formula = R"(y = \sum_i \sum_j w_{ij} D_{ij},\ w_i = \mathrm{softmax}(-\beta D_i),\ D_{ij} = \|x_i - c_j\|^2)",
    .shapes = "(..., N, D), (..., K, D) -> () or (...)",
    .law = "summed over points, reduced over the batch; a centre out of reach has weight and gradient 0",
    .shape =
        [](Run& r) {
          const Shape batch = batch_of(distance_shape(r));
          define::require_positive_parameter(r, "the inverse temperature");
          declare_loss(r, batch, r.attr<ParameterAttributes>().reduction);
        },
    .composite =
        [](Run& r) {
          const Tensor distance = squared_distance(r.in(0), r.in(1));
          const Tensor weights = softmax(-distance, {.inverse_temperature = parameter_of(r)});
          return reduced(sum(expected(weights, distance), {.axes = {-1}}), r.attr<ParameterAttributes>().reduction);
        },
    .cases =
        [] {
          const std::vector<InputSpec> batch{normal_input({2, 5, 3}), normal_input({2, 4, 3})};
          return std::vector<OpCase>{
              {"one task", {normal_input({7, 2}), normal_input({3, 2})}, [](Inputs x) { return smoothed_kmeans_loss(x[0], x[1]); }},
              {"mean", batch, [](Inputs x) { return smoothed_kmeans_loss(x[0], x[1], {.inverse_temperature = 0.3}); }},
              {"sum", batch, [](Inputs x) { return smoothed_kmeans_loss(x[0], x[1], {.reduction = Reduction::sum}); }},
              {"none", batch, [](Inputs x) { return smoothed_kmeans_loss(x[0], x[1], {.inverse_temperature = 2.0, .reduction = Reduction::none}); }},
              {"inverse temperature a tensor",
               {normal_input({5, 2}), normal_input({3, 2}), uniform_input({}, 0.5, 2)},
               [](Inputs x) { return smoothed_kmeans_loss(x[0], x[1], {.inverse_temperature = x[2]}); }},
              {"no points", {normal_input({0, 2}), normal_input({3, 2})}, [](Inputs x) { return smoothed_kmeans_loss(x[0], x[1]); }}};
        },
};

const OpDef assignment_op = {
    .name = "boltzmann_assignment",
    .family = "loss",
    .formula = R"(q_{tk} = e^{-D_{tk} / \tau} / \sum_l e^{-D_{tl} / \tau},\ D_{tk} = \|z_t - p_k\|^2)",
    .shapes = "(..., T, D), (..., K, D) -> (..., T, K)",
    .law = "tau must be finite and > 0",
    .shape =
        [](Run& r) {
          define::require_positive_parameter(r, "tau");
          r.declare(distance_shape(r), r.in(0).dtype());
        },
    .composite = [](Run& r) { return assignment(squared_distance(r.in(0), r.in(1)), parameter_of(r)); },
    .cases =
        [] {
          return std::vector<OpCase>{
              {"tau 1", {normal_input({5, 3}), normal_input({4, 3})}, [](Inputs x) { return boltzmann_assignment(x[0], x[1]); }},
              {"shared prototypes, tau 2.5", {normal_input({2, 3, 2}), normal_input({4, 2})}, [](Inputs x) { return boltzmann_assignment(x[0], x[1], 2.5); }},
              {"tau a tensor",
               {normal_input({5, 3}), normal_input({4, 3}), uniform_input({}, 0.8, 2)},
               [](Inputs x) { return boltzmann_assignment(x[0], x[1], x[2]); }},
              {"empty", {normal_input({0, 3}), normal_input({4, 3})}, [](Inputs x) { return boltzmann_assignment(x[0], x[1]); }}};
        },
};

template <Tensor (*f)(const Tensor&, const Tensor&, const Tensor&, const LossOptions&)>
std::vector<OpCase> token_cases() {
  return {{"mean", {normal_input({5, 3}), normal_input({4, 3}), uniform_input({5, 4}, 0, 1)}, [](Inputs x) { return f(x[0], x[1], x[2], {}); }},
          {"sum, shared prototypes",
           {normal_input({2, 3, 2}), normal_input({4, 2}), uniform_input({2, 3, 4}, 0, 1)},
           [](Inputs x) { return f(x[0], x[1], x[2], {Reduction::sum}); }},
          {"none, no weight on one",
           {normal_input({2, 3}), normal_input({3, 3}), value_input({2, 3}, {0.3, 0, 0.7, 1, 0, 0})},
           [](Inputs x) { return f(x[0], x[1], x[2], {Reduction::none}); }},
          {"empty", {normal_input({0, 3}), normal_input({4, 3}), normal_input({0, 4})}, [](Inputs x) { return f(x[0], x[1], x[2], {Reduction::sum}); }}};
}

const OpDef quantization_op = {
    .name = "ddcl_quantization",
    .family = "loss",
    .formula = R"(L_q = \sum_k q_{tk} \|z_t - p_k\|^2)",
    .shapes = "(..., T, D), (..., K, D), (..., T, K) -> () or (..., T)",
    .law = "reconstruction + variance, for rows of q that sum to 1",
    .shape = declare_token_loss,
    .composite = [](Run& r) { return reduced(expected(r.in(2), squared_distance(r.in(0), r.in(1))), r.attr<LossOptions>().reduction); },
    .cases = token_cases<ddcl_quantization>};

const OpDef reconstruction_op = {.name = "ddcl_reconstruction",
                                 .family = "loss",
                                 .formula = R"(L_{OLS} = \|z_t - \sum_k q_{tk} p_k\|^2)",
                                 .shapes = "(..., T, D), (..., K, D), (..., T, K) -> () or (..., T)",
                                 .shape = declare_token_loss,
                                 .composite = [](Run& r) { return reduced(squared_norm(r.in(0) - matmul(r.in(2), r.in(1))), r.attr<LossOptions>().reduction); },
                                 .cases = token_cases<ddcl_reconstruction>};

const OpDef variance_op = {
    .name = "ddcl_variance",
    .family = "loss",
    .formula = R"(V = \sum_k q_{tk} \|p_k - \bar p_t\|^2,\ \bar p_t = \sum_k q_{tk} p_k)",
    .shapes = "(..., K, D), (..., T, K) -> () or (..., T)",
    .law = "never negative; 0 exactly when all prototypes with weight coincide",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          define::require_same_dtype(r, 0, 1);
          const Shape &p = r.in(0).shape(), &q = r.in(1).shape();
          if (p.rank() < 2 || q.rank() < 2 || q.back() != p[p.rank() - 2])
            throw ShapeError("ddcl_variance", cat("prototypes ", p, ", assignment ", q), "give (..., K, D) and (..., T, K)");
          declare_loss(r, without_last(define::with_matrix(broadcast_shapes(batch_of(p), batch_of(q), r.name()), q[q.rank() - 2], 0)),
                       r.attr<LossOptions>().reduction);
        },
    .composite =
        [](Run& r) {
          const Tensor &prototypes = r.in(0), &q = r.in(1);
          return reduced(expected(q, squared_distance(matmul(q, prototypes), prototypes)), r.attr<LossOptions>().reduction);
        },
    .cases =
        [] {
          return std::vector<OpCase>{
              {"mean", {normal_input({4, 3}), uniform_input({5, 4}, 0, 1)}, [](Inputs x) { return ddcl_variance(x[0], x[1]); }},
              {"sum, shared prototypes",
               {normal_input({4, 2}), uniform_input({2, 3, 4}, 0, 1)},
               [](Inputs x) { return ddcl_variance(x[0], x[1], {Reduction::sum}); }},
              {"none",
               {normal_input({3, 3}), value_input({2, 3}, {0.3, 0, 0.7, 1, 0, 0})},
               [](Inputs x) { return ddcl_variance(x[0], x[1], {Reduction::none}); }},
              {"empty", {normal_input({4, 3}), normal_input({0, 4})}, [](Inputs x) { return ddcl_variance(x[0], x[1], {Reduction::sum}); }}};
        },
};

const OpDef free_energy_op = {
    .name = "ddcl_free_energy",
    .family = "loss",
    .formula = R"(F = -\tau \ln \sum_k e^{-\|z_t - p_k\|^2 / \tau})",
    .shapes = "(..., T, D), (..., K, D) -> () or (..., T)",
    .law = "L_q - tau H(q) at the Boltzmann assignment; its gradient is that of L_q with q held fixed",
    .shape =
        [](Run& r) {
          const Shape distance = distance_shape(r);
          define::require_positive_parameter(r, "tau");
          declare_loss(r, without_last(distance), r.attr<ParameterAttributes>().reduction);
        },
    .composite = [](Run& r) { return reduced(free_energy(squared_distance(r.in(0), r.in(1)), parameter_of(r)), r.attr<ParameterAttributes>().reduction); },
    .cases =
        [] {
          const std::vector<InputSpec> pair{normal_input({2, 3, 2}), normal_input({4, 2})};
          return std::vector<OpCase>{
              {"mean", pair, [](Inputs x) { return ddcl_free_energy(x[0], x[1]); }},
              {"sum, tau 2.5", pair, [](Inputs x) { return ddcl_free_energy(x[0], x[1], {.tau = 2.5, .reduction = Reduction::sum}); }},
              {"none, tau a tensor",
               {pair[0], pair[1], uniform_input({}, 0.8, 2)},
               [](Inputs x) { return ddcl_free_energy(x[0], x[1], {.tau = x[2], .reduction = Reduction::none}); }},
              {"empty", {normal_input({0, 2}), normal_input({4, 2})}, [](Inputs x) { return ddcl_free_energy(x[0], x[1], {.reduction = Reduction::sum}); }}};
        },
};

}  // namespace

Tensor smoothed_kmeans_loss(const Tensor& points, const Tensor& centres, const SmoothedKmeansOptions& options) {
  return define::apply_with(smoothed_kmeans_op, points, centres, options.inverse_temperature, options.reduction);
}
Tensor boltzmann_assignment(const Tensor& z, const Tensor& prototypes, const Number& tau) { return define::apply_with(assignment_op, z, prototypes, tau); }
Tensor ddcl_quantization(const Tensor& z, const Tensor& prototypes, const Tensor& q, const LossOptions& options) {
  return apply(quantization_op, {&z, &prototypes, &q}, options);
}
Tensor ddcl_reconstruction(const Tensor& z, const Tensor& prototypes, const Tensor& q, const LossOptions& options) {
  return apply(reconstruction_op, {&z, &prototypes, &q}, options);
}
Tensor ddcl_variance(const Tensor& prototypes, const Tensor& q, const LossOptions& options) { return apply(variance_op, {&prototypes, &q}, options); }
Tensor ddcl_free_energy(const Tensor& z, const Tensor& prototypes, const FreeEnergyOptions& options) {
  return define::apply_with(free_energy_op, z, prototypes, options.tau, options.reduction);
}

DdclTerms ddcl_terms(const Tensor& z, const Tensor& prototypes, const DdclOptions& options) {
  define::require_positive("ddcl_terms", "tau", options.tau.value());
  const Tensor distance = squared_distance(z, prototypes);
  const Tensor soft = assignment(distance, options.tau);
  const Tensor q = options.stop_gradient ? stop_gradient(soft) : soft;
  const Tensor output = matmul(q, prototypes);
  return {.assignments = q,
          .output = output,
          .quantization = reduced(expected(q, distance), options.reduction),
          .reconstruction = reduced(squared_norm(z - output), options.reduction),
          .variance = reduced(expected(q, squared_distance(output, prototypes)), options.reduction),
          .free_energy = reduced(free_energy(distance, options.tau), options.reduction)};
}

std::span<const OpDef* const> clustering_loss_ops() {
  static const OpDef* const all[] = {&smoothed_kmeans_op, &assignment_op, &quantization_op, &reconstruction_op, &variance_op, &free_energy_op};
  return all;
}

}  // namespace gradus
