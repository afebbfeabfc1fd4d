// The population loss of the sparse exclusive or, its gradient, one long step, and predictions.
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/reference/arrays.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

struct Population {
  Tensor loss, u, v;
};

// E (f + x_a x_b)^2 over uniform signs x, for f = -(u x)(v x).
Population population(const Tensor& positions, const Tensor& theta, const Tensor& theta_tilde, const Tensor& support) {
  const Tensor u = softmax(matmul(positions, theta)), v = softmax(matmul(positions, theta_tilde));
  const Tensor at_u = index_select(u, 0, support), at_v = index_select(v, 0, support);
  const Tensor loss = matmul(u, u) * matmul(v, v) + 2.0 * square(matmul(u, v)) - 2.0 * sum(square(u) * square(v)) - 2.0 * sum(at_u * flip(at_v, 0)) + 1.0;
  return {loss, u, v};
}

void compare(DType dtype) {
  const Arrays arrays("sparse_xor", dtype);
  if (!arrays.present()) return;
  const Tensor positions = arrays["positions"], support = arrays["support"];
  Tape tape;
  const Tensor theta = tape.variable(arrays["theta"]), theta_tilde = tape.variable(arrays["theta_tilde"]);
  const Population at = population(positions, theta, theta_tilde, support);
  arrays.check("loss", at.loss);
  arrays.check("attention", at.u);
  arrays.check("attention_tilde", at.v);
  const Gradients gradients = tape.backward(at.loss);
  arrays.check("theta_grad", gradients.of(theta));
  arrays.check("theta_tilde_grad", gradients.of(theta_tilde));

  const double eta = arrays.number("eta");
  const Population after =
      population(positions, theta.detached() - eta * gradients.of(theta), theta_tilde.detached() - eta * gradients.of(theta_tilde), support);
  arrays.check("loss_after", after.loss);
  arrays.check("attention_after", after.u);
  arrays.check("attention_tilde_after", after.v);

  const Tensor bits = arrays["bits"];
  const Tensor prediction = -matmul(bits, at.u.detached()) * matmul(bits, at.v.detached());
  const Tensor chosen = index_select(bits, 1, support);
  arrays.check("prediction", prediction);
  arrays.check("empirical_loss", mean(square(prediction + select(chosen, 1, 0) * select(chosen, 1, 1))));
}

}  // namespace

TEST_CASE("sparse_exclusive_or_its_gradient_and_a_step_are_the_reference_s", "[reference]") {
  compare(DType::f64);
  compare(DType::f32);
}
