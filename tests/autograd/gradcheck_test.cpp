// The checker itself: a rule wrong by one percent, a wrong sign and a lost term must all be caught.
#include "engine/autograd/gradcheck.hpp"

#include "engine/autograd/op_check.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/registry.hpp"
#include "engine/tensor/view.hpp"
#include "tests/catch.hpp"

using namespace gradus;

namespace {

double factor = 1;  // by which the rules under test are wrong

const OpDef scaled_exp = {.name = "scaled_exp",
                          .family = "test",
                          .formula = "y = e^x",
                          .shape = [](Run& r) { r.declare(r.in(0).shape(), r.in(0).dtype()); },
                          .forward = [](Run& r) { copy_into(r.out(), exp(r.in(0))); },
                          .vjp = [](Vjp& b) { b.to(0, factor * (b.grad() * b.output())); },
                          .saves = save::output};

// The identity with a rule wrong by one percent: what follows an op spoils its rule by as much.
const OpDef amplify = {.name = "amplify",
                       .family = "test",
                       .formula = "y = x",
                       .shape = [](Run& r) { r.declare(r.in(0).shape(), r.in(0).dtype()); },
                       .forward = [](Run& r) { copy_into(r.out(), r.in(0)); },
                       .vjp = [](Vjp& b) { b.to(0, 1.01 * b.grad()); }};

// A slope of 0 everywhere cannot be wrong by a percent (relu of negative numbers, a softmax over one entry).
bool gradient_is_zero(const OpCase& op_case, std::span<const Tensor> inputs) {
  Tape tape;
  std::vector<Tensor> on_tape;
  for (const Tensor& x : inputs) on_tape.push_back(is_floating(x.dtype()) ? tape.variable(x) : tape.input(x));
  const Tensor y = op_case.call(on_tape);
  const Gradients gradients = tape.backward(y, {.cotangent = random_normal(y.shape(), y.dtype(), 1)});
  for (const Tensor& x : on_tape)
    if (is_floating(x.dtype()) && max_difference(gradients.of(x), Tensor::zeros(x.shape(), x.dtype())) > 1e-12) return false;
  return true;
}

Tensor faulty_exp(std::span<const Tensor> x) { return apply(scaled_exp, {&x[0]}); }

}  // namespace

TEST_CASE("gradcheck passes right rules and catches ones wrong by a percent or in sign", "[gradcheck]") {
  const std::vector<Tensor> x{random_normal({3, 4}, DType::f64, 3)};
  factor = 1;
  CHECK(gradcheck(faulty_exp, x).passed);
  CHECK(gradcheck_second(faulty_exp, x).passed);
  for (const double wrong : {1.01, 0.99, -1.0, 1.00001}) {
    factor = wrong;
    const GradcheckResult result = gradcheck(faulty_exp, x);
    CHECK_FALSE(result.passed);
    CHECK(result.input == 0);
    CHECK(result.describe().find("element") != std::string::npos);
  }
}

TEST_CASE("gradcheck_second catches a second derivative that is lost", "[gradcheck]") {
  // Right first derivatives computed off the tape: the recorded backward does not know that they depend on x.
  static const OpDef detached = {.name = "detached_square",
                                 .family = "test",
                                 .formula = "y = x^2",
                                 .shape = [](Run& r) { r.declare(r.in(0).shape(), r.in(0).dtype()); },
                                 .forward = [](Run& r) { copy_into(r.out(), square(r.in(0))); },
                                 .vjp = [](Vjp& b) { b.to(0, b.grad() * (2.0 * b.input(0).detached())); },
                                 .saves = save::input(0)};
  const auto f = [](std::span<const Tensor> x) { return apply(detached, {&x[0]}); };
  const std::vector<Tensor> x{random_normal({4}, DType::f64, 3)};
  CHECK(gradcheck(f, x).passed);
  CHECK_FALSE(gradcheck_second(f, x).passed);
}

TEST_CASE("every op's rule made wrong by one percent is caught", "[gradcheck]") {
  for (const OpDef* op : all_ops()) {
    if (op->gradient != GradientKind::exact) continue;
    int caught = 0, tried = 0;
    for (const OpCase& op_case : op->cases()) {
      const std::vector<Tensor> inputs = make_inputs(op_case, DType::f64, 11);
      bool differentiable = false, empty = false;
      for (const Tensor& x : inputs) {
        differentiable = differentiable || is_floating(x.dtype());
        empty = empty || x.numel() == 0;
      }
      if (!differentiable || empty || op_case.at_kink || gradient_is_zero(op_case, inputs)) continue;
      ++tried;
      const auto wrong = [&](std::span<const Tensor> x) {
        const Tensor y = op_case.call(x);
        return is_floating(y.dtype()) ? apply(amplify, {&y}) : y;
      };
      caught += !gradcheck(wrong, inputs).passed;
    }
    INFO(op->name);
    CHECK(tried > 0);
    CHECK(caught == tried);
  }
}

TEST_CASE("gradcheck refuses f32", "[gradcheck]") {
  const std::vector<Tensor> x{Tensor::ones({2})};
  CHECK_THROWS_AS(gradcheck([](std::span<const Tensor> in) { return exp(in[0]); }, x), DTypeError);
}
