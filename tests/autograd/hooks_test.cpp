// Gradient hooks by name, and the tracing of the first NaN.
#include "engine/autograd/anomaly.hpp"
#include "engine/autograd/gradcheck.hpp"
#include "engine/autograd/tape.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"

using namespace gradus;

namespace {

const Tensor numbers = random_normal({5}, DType::f64, 1);

// The gradient of a small graph with a named value and a scope in its middle.
Tensor gradient(Tape& tape) {
  tape.clear();
  const Tensor x = tape.variable(numbers, "weights");
  Tensor hidden;
  {
    const auto scope = tape.scope("block");
    const auto inner = tape.scope("inner");
    hidden = tanh(x * 2.0);
  }
  const Tensor h = exp(hidden);
  tape.name(h, "hidden");
  return tape.backward(sum(h * h)).of(x);
}

std::string message_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a hook that returns its gradient, or nothing, changes no bit") {
  Tape plain, hooked;
  int calls = 0;
  for (const char* name : {"weights", "hidden", "block", "block/inner"}) {
    hooked.hook(name, [&](const Tensor& g) { return ++calls, g; });
    hooked.hook(name, [&](const Tensor&) { return ++calls, Tensor(); });
  }
  CHECK(bit_equal(gradient(plain), gradient(hooked)));
  CHECK(calls == 8);
  CHECK(bit_equal(gradient(plain), gradient(hooked)));  // hooks outlive clear()
  CHECK(calls == 16);
}

TEST_CASE("a hook sees the whole gradient and may replace it") {
  Tape plain, hooked;
  const Tensor before = gradient(plain);
  for (const char* name : {"weights", "hidden", "block/inner"}) {
    hooked.hook(name, [](const Tensor& g) { return g * 3.0; });
    CHECK(max_difference(gradient(hooked), before * 3.0) <= 1e-12);
    hooked.unhook(name);
    CHECK(bit_equal(gradient(hooked), before));
  }
  Tensor seen;
  hooked.hook("hidden", [&](const Tensor& g) { return seen = g, Tensor(); });
  (void)gradient(hooked);
  CHECK(max_difference(seen, 2.0 * exp(tanh(numbers * 2.0))) <= 1e-12);
}

TEST_CASE("hooks of one name run in order") {
  Tape plain, hooked;
  hooked.hook("hidden", [](const Tensor& g) { return g + 1.0; });
  hooked.hook("hidden", [](const Tensor& g) { return g * 0.0; });
  CHECK(equal(gradient(hooked), Tensor::zeros({5}, DType::f64)));
}

TEST_CASE("a misspelt hook is an error that lists near names") {
  Tape tape;
  tape.hook("blok/inner", [](const Tensor& g) { return g; });
  CHECK(message_of([&] { (void)gradient(tape); }).find("block/inner") != std::string::npos);
  CHECK_THROWS_AS(tape.unhook("block/inner"), GraphError);
  CHECK_THROWS_AS(tape.hook("", [](const Tensor& g) { return g; }), ValueError);
  CHECK_THROWS_AS(tape.hook("weights", nullptr), ValueError);
}

TEST_CASE("a hook that changes shape or dtype is an error") {
  Tape tape;
  tape.hook("hidden", [](const Tensor& g) { return sum(g); });
  CHECK_THROWS_AS(gradient(tape), GraphError);
}

TEST_CASE("a hook's change is differentiated in a recorded backward") {
  Tape tape;
  const Tensor x = tape.variable(Tensor::scalar(0.7, DType::f64), "x");
  const Tensor y = x * x * x;
  tape.hook("x", [](const Tensor& g) { return g * g; });
  const Tensor g = tape.backward(y, {.record = true}).of(x);  // (3 x^2)^2
  tape.unhook("x");
  CHECK(tape.backward(g).of(x).item() == Approx(36 * 0.7 * 0.7 * 0.7));
}

TEST_CASE("the first producer of a NaN is named, not a later step") {
  Tape tape;
  AnomalyTracer tracer;
  tape.attach(tracer);
  const Tensor x = tape.variable(Tensor::of({3, 1}, DType::f64), "x");
  const auto scope = tape.scope("norm");
  const Tensor y = sqrt(sqrt(x - 2.0));
  REQUIRE(tracer.found());
  CHECK(tracer.step() == 1);
  CHECK(tracer.report().find("sqrt in norm (step 1, forward) made NaN at element 1") == 0);
  const std::string text = message_of([&] { require_finite_loss(sum(y), &tracer); });
  CHECK(text.find("step 1") != std::string::npos);
  tape.detach(tracer);
}

TEST_CASE("an infinity born in the backward pass is found there") {
  Tape tape;
  AnomalyTracer tracer;
  tape.attach(tracer);
  const Tensor x = tape.variable(Tensor::of({0, 1}, DType::f64), "x");
  const Tensor y = sum(sqrt(x));
  CHECK(!tracer.found());
  CHECK(require_finite_loss(y, &tracer) == 1);
  (void)tape.backward(y);
  REQUIRE(tracer.found());
  CHECK(tracer.phase() == StepEvent::Phase::backward);
  CHECK(tracer.report().find("sqrt (step 0, backward) made inf at element 0") == 0);
  CHECK(tracer.report().find("\"x\"") != std::string::npos);
  tape.detach(tracer);
}

TEST_CASE("a NaN that was there from the start is reported as given") {
  Tape tape;
  AnomalyTracer tracer(true);
  tape.attach(tracer);
  const Tensor x = tape.variable(Tensor::of({1, std::numeric_limits<double>::quiet_NaN()}, DType::f64), "data");
  CHECK(message_of([&] { (void)exp(x); }).find("was given NaN at element 1 of input 0 \"data\"") != std::string::npos);
  tape.detach(tracer);
}

TEST_CASE("a loss that is not finite is an error without a tracer too") {
  CHECK_THROWS_AS(require_finite_loss(Tensor::scalar(std::numeric_limits<double>::infinity())), ValueError);
}
