// DDCL: assignments, the decomposition of the quantisation error, the free energy, and the gradients of all.
#include "engine/ops/clustering_loss.hpp"
#include "tests/reference/arrays.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

void compare(DType dtype) {
  const Arrays arrays("ddcl", dtype);
  if (!arrays.present()) return;
  const double tau = arrays.number("tau");
  Tape tape;
  const Tensor z = tape.variable(arrays["z"]), prototypes = tape.variable(arrays["prototypes"]);
  const DdclTerms terms = ddcl_terms(z, prototypes, {.tau = tau});
  arrays.check("assignments", terms.assignments);
  arrays.check("output", terms.output);
  arrays.check("entropy", (terms.quantization - terms.free_energy) / tau);
  const auto compare_term = [&](const std::string& name, const Tensor& value) {
    arrays.check(name, value);
    const Gradients gradients = tape.backward(value);
    arrays.check("d" + name + "_dz", gradients.of(z));
    arrays.check("d" + name + "_dP", gradients.of(prototypes));
  };
  compare_term("L_q", terms.quantization);
  compare_term("L_OLS", terms.reconstruction);
  compare_term("V", terms.variance);
  compare_term("free_energy", terms.free_energy);
  // The single losses are the same functions.
  const Tensor q = boltzmann_assignment(z, prototypes, tau);
  compare_term("L_q", ddcl_quantization(z, prototypes, q));
  compare_term("L_OLS", ddcl_reconstruction(z, prototypes, q));
  compare_term("V", ddcl_variance(prototypes, q));
  compare_term("free_energy", ddcl_free_energy(z, prototypes, {.tau = tau}));
}

}  // namespace

TEST_CASE("ddcl_its_decomposition_and_all_gradients_are_the_reference_s", "[reference]") {
  compare(DType::f64);
  compare(DType::f32);
}
