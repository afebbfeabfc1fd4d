// The smoothed k-means objective, DDCL's decomposition, and vector quantisation.
#include "engine/ops/clustering_loss.hpp"

#include <cmath>

#include "engine/autograd/gradcheck.hpp"
#include "engine/ops/distance.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/quantize.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

Tensor normal(const Shape& shape, std::uint64_t seed) { return random_normal(shape, DType::f64, seed); }

// Gradients of f(z, p) with respect to both.
struct Both {
  Tensor z, p;
};
Both gradients(const std::function<Tensor(const Tensor&, const Tensor&)>& f, const Tensor& z_at, const Tensor& p_at) {
  Tape tape;
  const Tensor z = tape.variable(z_at), p = tape.variable(p_at);
  const Tensor y = f(z, p);
  const Gradients g = tape.backward(y, {.cotangent = Tensor::ones(y.shape(), y.dtype())});
  return {g.of(z), g.of(p)};
}

}  // namespace

TEST_CASE("quantisation_is_reconstruction_plus_variance_to_rounding", "[loss]") {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const double tau : {0.01, 0.5, 3.0, 100.0})
      for (const double offset : {0.0, 50.0}) {
        const Tensor z = random_normal({2, 40, 6}, dtype, 1) + offset, p = random_normal({7, 6}, dtype, 2) + offset;
        const DdclTerms terms = ddcl_terms(z, p, {.tau = tau, .reduction = Reduction::none});
        const Tensor both = terms.reconstruction + terms.variance;
        INFO("tau " << tau << ", offset " << offset << ", " << name_of(dtype));
        // Coordinates are rounded once for each term: pbar inherits the rounding of the offset.
        const double digits = (dtype == DType::f32 ? 4e-6 : 1e-14) * (1 + offset);
        CHECK(max_difference(terms.quantization, both) <= digits * max(terms.quantization).item());
        CHECK(min(terms.variance).item() >= 0);
      }
  // For any weights that sum to 1, whatever gave them.
  const Tensor z = normal({30, 4}, 3), p = normal({5, 4}, 4), q = hardmax(normal({30, 5}, 5)) * 0.5 + 0.1;
  CHECK(ddcl_quantization(z, p, q).item() == Approx(ddcl_reconstruction(z, p, q).item() + ddcl_variance(p, q).item()).epsilon(1e-14));
  // V = 1/2 sum_kl q_k q_l ||p_k - p_l||^2, and 0 when all prototypes coincide.
  const Tensor pairwise = 0.5 * sum(matmul(q, squared_distance(p, p)) * q, {.axes = {-1}});
  CHECK(all_close(ddcl_variance(p, q, {Reduction::none}), pairwise, 1e-13));
  CHECK(ddcl_variance(Tensor::full({5, 4}, 1.5, DType::f64), hardmax(normal({30, 5}, 5))).item() == 0);
}

TEST_CASE("ddcl_gradients_are_the_closed_forms", "[loss]") {
  const Tensor z = normal({9, 3}, 1), p = normal({4, 3}, 2), tau = Tensor::scalar(0.7, DType::f64);
  const Tensor distance = squared_distance(z, p), q = boltzmann_assignment(z, p, tau), pbar = matmul(q, p);
  const auto sum_of = [](const Tensor& weights, const Tensor& points, const Tensor& prototypes) {  // sum_t 2 w_tk (p_k - x_t)
    return 2.0 * (prototypes * unsqueeze(sum(weights, {.axes = {0}}), -1) - matmul(transpose(weights), points));
  };
  const auto term = [&](Tensor DdclTerms::*which, bool stop) {
    return gradients(
        [&](const Tensor& a, const Tensor& b) { return ddcl_terms(a, b, {.tau = tau, .stop_gradient = stop, .reduction = Reduction::sum}).*which; }, z, p);
  };
  // q held fixed.
  CHECK(all_close(term(&DdclTerms::quantization, true).p, sum_of(q, z, p), 1e-12, 1e-13));
  CHECK(all_close(term(&DdclTerms::variance, true).p, sum_of(q, pbar, p), 1e-12, 1e-13));
  CHECK(all_close(term(&DdclTerms::reconstruction, true).p, 2.0 * matmul(transpose(q), pbar - z), 1e-12, 1e-13));
  // Through q: c_k = q_k (1 - (D_k - L_q) / tau).
  const Tensor error = sum(q * distance, {.axes = {-1}, .keep = true}), c = q * (1.0 - (distance - error) / tau);
  CHECK(all_close(term(&DdclTerms::quantization, false).p, sum_of(c, z, p), 1e-12, 1e-13));
  // The free energy has the gradient of L_q at fixed q (the envelope), whatever the switch says.
  const Both envelope = term(&DdclTerms::quantization, true);
  for (const bool stop : {false, true}) {
    const Both free = term(&DdclTerms::free_energy, stop);
    CHECK(all_close(free.p, envelope.p, 1e-12, 1e-13));
    CHECK(all_close(free.z, envelope.z, 1e-12, 1e-13));
  }
  // dL_q / dtau = Var_q(D) / tau^2, dF / dtau = -H(q).
  const auto by_tau = [&](const std::function<Tensor(const Tensor&)>& f) {
    Tape tape;
    const Tensor t = tape.variable(tau);
    return tape.backward(f(t)).of(t).item();
  };
  const double variance = sum(q * square(distance - error)).item() / (0.7 * 0.7), entropy = -sum(q * log(q)).item();
  CHECK(by_tau([&](const Tensor& t) { return ddcl_quantization(z, p, boltzmann_assignment(z, p, t), {Reduction::sum}); }) == Approx(variance).epsilon(1e-12));
  CHECK(by_tau([&](const Tensor& t) { return ddcl_free_energy(z, p, {.tau = t, .reduction = Reduction::sum}); }) == Approx(-entropy).epsilon(1e-12));
}

TEST_CASE("ddcl_options_matter", "[loss]") {
  const Tensor z = normal({2, 6, 3}, 1), p = normal({4, 3}, 2);
  const DdclTerms terms = ddcl_terms(z, p), each = ddcl_terms(z, p, {.reduction = Reduction::none});
  CHECK(terms.assignments.shape() == Shape{2, 6, 4});
  CHECK(terms.output.shape() == z.shape());
  CHECK(each.free_energy.shape() == Shape{2, 6});
  CHECK(terms.quantization.item() == Approx(mean(each.quantization).item()).epsilon(1e-14));
  CHECK(ddcl_terms(z, p, {.reduction = Reduction::sum}).variance.item() == Approx(12 * terms.variance.item()).epsilon(1e-14));
  CHECK(ddcl_terms(z, p, {.tau = 5.0}).quantization.item() > terms.quantization.item());
  CHECK(all_close(ddcl_terms(z, p, {.tau = Tensor::scalar(5, DType::f64)}).quantization, ddcl_terms(z, p, {.tau = 5.0}).quantization, 1e-13));
  CHECK(all_close(ddcl_free_energy(z, p, {.tau = 2.0}), ddcl_terms(z, p, {.tau = 2.0}).free_energy, 1e-15));
  for (const double bad : {0.0, -1.0, not_a_number, inf}) {
    CHECK_THROWS_AS(boltzmann_assignment(z, p, bad), ValueError);
    CHECK_THROWS_AS(ddcl_terms(z, p, {.tau = bad}), ValueError);
    CHECK_THROWS_AS(ddcl_free_energy(z, p, {.tau = Tensor::scalar(bad, DType::f64)}), ValueError);
    CHECK_THROWS_AS(smoothed_kmeans_loss(z, z, {.inverse_temperature = bad}), ValueError);
    CHECK_THROWS_AS(vq_loss(z, p, {.commitment = bad}), ValueError);
    CHECK_THROWS_AS(hard_quantize(z, p, {.commitment = bad}), ValueError);
    CHECK_THROWS_AS(soft_quantize(z, p, {.commitment = bad}), ValueError);
  }
  CHECK_THROWS_AS(ddcl_quantization(z, p, Tensor::ones({2, 6, 3}, DType::f64)), ShapeError);
  CHECK_THROWS_AS(ddcl_variance(p, Tensor::ones({6, 3}, DType::f64)), ShapeError);
  CHECK_THROWS_AS(ddcl_terms(z, normal({4, 2}, 2)), ShapeError);
}

TEST_CASE("the_smoothed_objective_bounds_the_kmeans_objective_and_meets_it", "[loss]") {
  const Tensor x = normal({3, 50, 4}, 1), c = normal({3, 5, 4}, 2);
  const Tensor hard = sum(min(squared_distance(x, c), {.axes = {-1}}), {.axes = {-1}});
  double before = inf;
  for (const double beta : {0.1, 1.0, 10.0, 1e4}) {
    const Tensor smooth = smoothed_kmeans_loss(x, c, {.inverse_temperature = beta, .reduction = Reduction::none});
    CHECK(min(smooth - hard).item() >= -1e-12);
    CHECK(sum(smooth).item() < before);
    before = sum(smooth).item();
  }
  CHECK(before == Approx(sum(hard).item()).epsilon(1e-6));
  const Tensor distance = squared_distance(x, c), w = softmax(-distance, {.inverse_temperature = 10.0});
  CHECK(smoothed_kmeans_loss(x, c, {.inverse_temperature = 10.0}).item() == Approx(sum(w * distance).item() / 3).epsilon(1e-14));
  // dL / dD = w (1 - beta (D - sum w D)), through both factors.
  const Tensor slope = w * (1.0 - 10.0 * (distance - sum(w * distance, {.axes = {-1}, .keep = true})));
  const Both g =
      gradients([](const Tensor& a, const Tensor& b) { return smoothed_kmeans_loss(a, b, {.inverse_temperature = 10.0, .reduction = Reduction::sum}); }, x, c);
  const Tensor expected = 2.0 * (c * unsqueeze(sum(slope, {.axes = {-2}}), -1) - matmul(transpose(slope), x));
  CHECK(all_close(g.p, expected, 1e-11, 1e-11));
}

TEST_CASE("a_centre_out_of_reach_leaves_clustering_losses_finite", "[edge]") {
  const Tensor x = random_normal({6, 2}, DType::f32, 1);
  for (const double far : {1e15, 1e30}) {  // the square of the second overflows
    Tensor c = random_normal({3, 2}, DType::f32, 2);
    c.set({1, 0}, far);
    const auto kmeans = [](const Tensor& a, const Tensor& b) { return smoothed_kmeans_loss(a, b, {.inverse_temperature = 10.0}); };
    const auto quantization = [](const Tensor& a, const Tensor& b) { return ddcl_terms(a, b).quantization; };
    const auto free_energy = [](const Tensor& a, const Tensor& b) { return ddcl_free_energy(a, b); };
    for (const std::function<Tensor(const Tensor&, const Tensor&)>& f :
         {std::function<Tensor(const Tensor&, const Tensor&)>(kmeans), {quantization}, {free_energy}}) {
      CHECK(std::isfinite(f(x, c).item()));
      const Both g = gradients(f, x, c);
      CHECK(all_finite(g.z));
      CHECK(all_finite(g.p));
      CHECK(g.p.at({1, 0}) == 0);
    }
  }
}

TEST_CASE("hard_quantisation_passes_codes_forward_and_gradients_straight_through", "[loss]") {
  const Tensor z = f64({{0.1, 0}, {2, 2}, {0.5, 0}}), book = f64({{0, 0}, {1, 0}, {2, 2.5}});
  Tape tape;
  const Tensor on_tape = tape.variable(z), codebook = tape.variable(book);
  const Quantized q = hard_quantize(on_tape, codebook, {.commitment = 0.5});
  CHECK(equal(q.codes.detached(), Tensor::from(std::vector<std::int64_t>{0, 2, 0}, {3})));  // the tie goes to the first
  CHECK(equal(q.output.detached(), f64({{0, 0}, {2, 2.5}, {0, 0}})));
  CHECK(bit_equal(q.output.detached(), vector_quantize(z, book)));
  CHECK(q.loss.item() == Approx(1.5 * (0.01 + 0.25 + 0.25) / 3).epsilon(1e-14));
  CHECK(q.loss.item() == vq_loss(z, book, {.commitment = 0.5}).item());
  const Tensor cotangent = normal({3, 2}, 9);
  const Gradients through = tape.backward(q.output, {.cotangent = cotangent});
  CHECK(equal(through.of(on_tape), cotangent));
  CHECK(equal(through.of(codebook), Tensor::zeros({3, 2}, DType::f64)));
  const Gradients pulls = tape.backward(q.loss);
  CHECK(all_close(pulls.of(on_tape), 0.5 * 2.0 / 3.0 * (z - q.output.detached()), 1e-14));
  CHECK(all_close(pulls.of(codebook), 2.0 / 3.0 * f64({{-0.6, 0}, {0, 0}, {0, 0.5}}), 1e-14));  // nothing for the code nobody chose
  // A replay chooses anew.
  tape.set(on_tape, f64({{1, 0}, {0, 0}, {2, 2}}));
  tape.replay();
  CHECK(equal(tape.value(q.output), f64({{1, 0}, {0, 0}, {2, 2.5}})));
}

TEST_CASE("soft_quantisation_averages_codes_and_can_forward_the_nearest", "[loss]") {
  const Tensor z = normal({2, 5, 3}, 1), book = normal({4, 3}, 2), cotangent = normal({2, 5, 3}, 3);
  const auto run = [&](const SoftVqOptions& options) {
    Tape tape;
    const Tensor a = tape.variable(z), b = tape.variable(book);
    const Quantized q = soft_quantize(a, b, options);
    const Gradients g = tape.backward(q.output, {.cotangent = cotangent});
    return std::vector<Tensor>{q.output.detached(), q.loss.detached(), g.of(a), g.of(b)};
  };
  const auto soft = run({.tau = 0.8}), hard = run({.tau = 0.8, .hard_output = true});
  const DdclTerms terms = ddcl_terms(z, book, {.tau = 0.8});
  CHECK(all_close(soft[0], terms.output, 1e-14));
  CHECK(soft[1].item() == Approx(0.25 * terms.quantization.item()).epsilon(1e-14));
  CHECK(bit_equal(hard[0], vector_quantize(z, book)));
  CHECK(bit_equal(hard[2], soft[2]));
  CHECK(bit_equal(hard[3], soft[3]));
  CHECK(soft_quantize(z, book, {.tau = 0.8, .commitment = 2.0, .reduction = Reduction::sum}).loss.item() ==
        Approx(20 * terms.quantization.item()).epsilon(1e-14));
}

TEST_CASE("a_nan_in_a_token_is_seen_in_its_code_and_only_there", "[edge]") {
  const Tensor z = f64({{0, not_a_number}, {1, 1}}), book = f64({{0, 0}, {1, 1}});
  const Tensor y = vector_quantize(z, book);
  CHECK((std::isnan(y.at({0, 0})) && std::isnan(y.at({0, 1})) && y.at({1, 0}) == 1));
}

TEST_CASE("a_stopped_gradient_stops_and_its_value_is_replayed", "[loss]") {
  Tape tape;
  const Tensor x = tape.variable(f64({2, 3}));
  const Tensor y = stop_gradient(x) * x;
  CHECK(equal(tape.backward(y, {.cotangent = Tensor::ones({2}, DType::f64)}).of(x), f64({2, 3})));
  tape.set(x, f64({5, 7}));
  tape.replay();
  CHECK(equal(tape.value(y), f64({25, 49})));
}
