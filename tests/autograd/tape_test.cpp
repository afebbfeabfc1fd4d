#include "engine/autograd/tape.hpp"

#include <cmath>
#include <functional>

#include "engine/autograd/gradcheck.hpp"
#include "engine/core/random.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"

using namespace gradus;

namespace {

Tensor number(double value) { return Tensor::scalar(value, DType::f64); }

template <class E>
std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "no such error";
}

}  // namespace

TEST_CASE("a value used several times gets the sum of its gradients once", "[tape]") {
  Tape tape;
  const Tensor x = tape.variable(number(3));
  const Tensor y = x * x * x;
  const Gradients gradients = tape.backward(y);
  CHECK(gradients.of(x).item() == 27);
  CHECK(gradients.steps_visited() == 2);
}

TEST_CASE("sixty doublings are visited once each", "[tape]") {
  Tape tape;
  const Tensor x = tape.variable(number(1));
  Tensor y = x;
  for (int i = 0; i < 60; ++i) y = y + y;
  const Gradients gradients = tape.backward(y);
  CHECK(gradients.of(x).item() == 0x1p60);
  CHECK(gradients.steps_visited() == 60);
}

TEST_CASE("backward twice gives the same gradients", "[tape]") {
  Tape tape;
  const Tensor x = tape.variable(Tensor::of({1, 2, 3}, DType::f64));
  const Tensor y = sum(exp(x));
  const Tensor first = tape.backward(y).of(x), second = tape.backward(y).of(x);
  CHECK(bit_equal(first, second));
}

TEST_CASE("the gradient of a value the loss does not depend on is zero", "[tape]") {
  Tape tape;
  const Tensor x = tape.variable(Tensor::ones({2})), z = tape.variable(Tensor::ones({3}));
  CHECK(equal(tape.backward(sum(x)).of(z), Tensor::zeros({3})));
}

TEST_CASE("a gradient that is not kept is an error, and kept under Retain::all", "[tape]") {
  for (const Retain retain : {Retain::saved, Retain::all}) {
    Tape tape({.retain = retain});
    const Tensor x = tape.variable(number(2));
    const Tensor middle = exp(x), y = square(middle);
    const Gradients gradients = tape.backward(y);
    if (retain == Retain::saved) CHECK_THROWS_AS(gradients.of(middle), GraphError);
    else CHECK(gradients.of(middle).item() == 2 * middle.item());
  }
}

TEST_CASE("mixing two tapes names both values", "[tape]") {
  Tape a, b;
  const Tensor x = a.variable(number(1), "left"), y = b.variable(number(2), "right");
  const std::string message = message_of<GraphError>([&] { (void)(x + y); });
  CHECK(message.find("left") != std::string::npos);
  CHECK(message.find("right") != std::string::npos);
}

TEST_CASE("handles from a cleared or destroyed tape are clear errors", "[tape]") {
  Tensor late;
  {
    Tape tape;
    const Tensor x = tape.variable(number(1));
    late = x * 2.0;
    tape.clear();
    CHECK_THROWS_AS(late * 2.0, GraphError);
    CHECK_THROWS_AS(tape.backward(late), GraphError);
    const Tensor again = tape.variable(number(1));
    CHECK_THROWS_AS(again + late, GraphError);
    late = again * 3.0;
  }
  CHECK_THROWS_AS(late * 2.0, GraphError);
  CHECK(late.item() == 3);
  CHECK((late.detached() * 2.0).item() == 6);
}

TEST_CASE("a value changed in place after the forward pass is named", "[tape]") {
  Tensor data = Tensor::of({1, 2, 3}, DType::f64);
  Tape tape;
  const Tensor x = tape.variable(data, "weights");
  const Tensor y = sum(square(x));
  Tensor window = view::slice(view::slice(data, 0, {0, 2}), 0, {1});  // a view of a view
  window.set({0}, 9);
  const std::string message = message_of<GraphError>([&] { (void)tape.backward(y); });
  CHECK(message.find("square") != std::string::npos);
  CHECK(message.find("weights") != std::string::npos);
}

TEST_CASE("no_grad records nothing while it lives", "[tape]") {
  Tape tape;
  const Tensor x = tape.variable(number(2));
  {
    const TapeGuard paused = tape.no_grad();
    CHECK_FALSE((x * x).on_tape());
  }
  CHECK((x * x).on_tape());
  CHECK(tape.steps() == 1);
}

TEST_CASE("scopes name steps", "[tape]") {
  Tape tape;
  const Tensor x = tape.variable(number(2));
  {
    const TapeGuard outer = tape.scope("layer0");
    const TapeGuard inner = tape.scope("attention");
    (void)exp(x);
  }
  (void)exp(x);
  CHECK(tape.step(0).scope == "layer0/attention");
  CHECK(tape.step(1).scope.empty());
}

TEST_CASE("backward needs one number or a cotangent, of a value that depends on a variable", "[tape]") {
  Tape tape;
  const Tensor x = tape.variable(Tensor::ones({2}));
  CHECK_THROWS_AS(tape.backward(x * 2.0), ShapeError);
  CHECK_THROWS_AS(tape.backward(x * 2.0, {.cotangent = Tensor::ones({3})}), ShapeError);
  CHECK_THROWS_AS(tape.backward(x * 2.0, {.cotangent = Tensor::ones({2}, DType::f64)}), DTypeError);
  CHECK(equal(tape.backward(x * 2.0, {.cotangent = Tensor::of({1, 10})}).of(x), Tensor::of({2, 20})));
  const Tensor constant = tape.input(Tensor::ones({}));
  CHECK_THROWS_AS(tape.backward(constant * 2.0), GraphError);
  CHECK_THROWS_AS(tape.variable(Tensor::arange(3)), DTypeError);
}

TEST_CASE("second derivatives come from a recorded backward", "[tape]") {
  Tape tape;
  const Tensor x = tape.variable(number(0.7));
  const Tensor y = exp(3.0 * x);
  const Tensor first = tape.backward(y, {.record = true}).of(x);
  REQUIRE(first.on_tape());
  const Tensor second = tape.backward(first, {.record = true}).of(x);
  const Tensor third = tape.backward(second).of(x);
  CHECK(first.item() == Approx(3 * std::exp(2.1)));
  CHECK(second.item() == Approx(9 * std::exp(2.1)));
  CHECK(third.item() == Approx(27 * std::exp(2.1)));
}

TEST_CASE("an op without a rule is named before any work, and only when it is in the way", "[tape]") {
  static const OpDef odd = {.name = "odd",
                            .family = "test",
                            .formula = "y = x",
                            .shape = [](Run& r) { r.declare(r.in(0).shape(), r.in(0).dtype()); },
                            .forward = [](Run& r) { copy_into(r.out(), r.in(0)); }};
  Tape tape;
  const Tensor x = tape.variable(number(1));
  const TapeGuard scope = tape.scope("block");
  const Tensor unused = apply(odd, {&x});
  CHECK(tape.backward(x * 2.0).of(x).item() == 2);
  const std::string message = message_of<GraphError>([&] { (void)tape.backward(unused * x); });
  CHECK(message.find("[odd]") != std::string::npos);
  CHECK(message.find("block") != std::string::npos);
}

TEST_CASE("a replay recomputes everything from changed leaves, and gradients follow", "[tape][replay]") {
  for (const Retain retain : {Retain::saved, Retain::all}) {
    Tape tape({.retain = retain});
    const Tensor x = tape.variable(Tensor::of({1, 2}, DType::f64), "x"), beta = tape.input(number(2), "beta");
    const Tensor y = sum(exp(beta * x) + transpose(reshape(x, {1, 2})));
    tape.set(x, Tensor::of({0.5, -1}, DType::f64));
    tape.set(beta, number(3));
    tape.replay();
    Tape fresh;
    const Tensor u = fresh.variable(Tensor::of({0.5, -1}, DType::f64));
    const Tensor v = sum(exp(number(3) * u) + transpose(reshape(u, {1, 2})));
    CHECK(bit_equal(tape.value(y), v.detached()));
    CHECK(bit_equal(tape.backward(y).of(x), fresh.backward(v).of(u)));
  }
}

TEST_CASE("a middle value can be edited and the rest replayed", "[tape][replay]") {
  Tape tape({.retain = Retain::all});
  const Tensor x = tape.variable(number(1));
  const Tensor a = x * 2.0, b = a * 3.0, c = b + 1.0;
  tape.set(b, number(10));
  tape.replay({.from_step = 2});
  CHECK(tape.value(c).item() == 11);
  CHECK(tape.value(a).item() == 2);
  Tape lean;
  const Tensor u = lean.variable(number(1));
  const Tensor v = exp(u + 1.0) + 1.0;
  CHECK_THROWS_AS(lean.replay({.from_step = 1}), GraphError);
  CHECK_THROWS_AS(lean.set(v, number(1)), GraphError);
  CHECK_THROWS_AS(tape.set(x, Tensor::ones({2}, DType::f64)), ShapeError);
  CHECK_THROWS_AS(tape.replay({.from_step = 99}), IndexError);
}

TEST_CASE("a replay takes parameters as an update in place left them", "[tape][replay]") {
  ParameterSet parameters;
  parameters.add("w", Tensor::of({1, 2}, DType::f64));
  Tape tape;
  const WatchedParameters w = tape.watch(parameters);
  const Tensor y = sum(square(w["w"]));
  Tensor storage = parameters[0].value;
  storage.set({0}, 5);
  CHECK_THROWS_AS(tape.backward(y), GraphError);
  tape.replay();
  CHECK(tape.value(y).item() == 29);
  CHECK(equal(tape.backward(y).of(w[0]), Tensor::of({10, 4}, DType::f64)));
}

TEST_CASE("a training replay draws new random numbers and an edit replay reuses them", "[tape][replay]") {
  static const OpDef noise = {.name = "noise",
                              .family = "test",
                              .formula = "y = x + u",
                              .shape = [](Run& r) { r.declare(r.in(0).shape(), r.in(0).dtype()); },
                              .forward = [](Run& r) { copy_into(r.out(), r.in(0) + Random(5, r.noise()).uniform(0)); },
                              .vjp = [](Vjp& b) { b.to(0, b.grad()); }};
  Tape tape;
  const Tensor x = tape.variable(number(0));
  const Tensor first = apply(noise, {&x}), second = apply(noise, {&x});
  const double a = first.item(), b = second.item();
  CHECK(a != b);
  tape.replay();
  CHECK(tape.value(first).item() == a);
  tape.replay({.advance_noise = true});
  CHECK(tape.value(first).item() != a);
  CHECK(tape.value(second).item() != b);
  // The counter is all there is to restore.
  Tape other;
  other.set_noise_counter(tape.noise_counter());
  const Tensor z = other.variable(number(0));
  CHECK(apply(noise, {&z}).item() == tape.value(first).item());
}

TEST_CASE("an expanded tape records the parts of fused ops and gives the same numbers", "[tape]") {
  const Tensor data = random_normal({4, 5}, DType::f64, 1);
  Tape fused, expanded({.expand = true});
  const Tensor x = fused.variable(data), u = expanded.variable(data);
  const Tensor y = softmax(x, {.inverse_temperature = 3.0}), v = softmax(u, {.inverse_temperature = 3.0});
  CHECK(fused.steps() == 1);
  CHECK(expanded.steps() > 3);
  CHECK(all_close(y.detached(), v.detached(), 1e-14));
  const Tensor cotangent = random_normal({4, 5}, DType::f64, 2);
  CHECK(all_close(fused.backward(y, {.cotangent = cotangent}).of(x), expanded.backward(v, {.cotangent = cotangent}).of(u), 1e-12, 1e-14));
}

TEST_CASE("observers see every step forward and backward and change nothing", "[tape][observer]") {
  struct Recorder : Observer {
    std::vector<std::string> seen;
    void on_step(const StepEvent& event) override {
      seen.push_back(cat(event.phase == StepEvent::Phase::forward ? "+" : "-", event.op.name, ":", event.scope, ":", event.input_names[0]));
      if (event.phase == StepEvent::Phase::backward) {
        CHECK(event.output_gradients[0]->defined());
        CHECK(event.input_gradients[0]->defined());
      }
      CHECK(event.seconds >= 0);
    }
  };
  const Tensor data = random_normal({64, 33}, DType::f32, 5);
  const auto train = [&](Observer* observer) {
    Tape tape;
    if (observer) tape.attach(*observer);
    const Tensor x = tape.variable(data, "x");
    const TapeGuard scope = tape.scope("loss");
    const Tensor y = mean(square(softmax(x)));
    return tape.backward(y).of(x);
  };
  Recorder recorder;
  const Tensor watched = train(&recorder), plain = train(nullptr);
  CHECK(bit_equal(watched, plain));
  CHECK(recorder.seen == std::vector<std::string>{"+softmax:loss:x", "+square:loss:", "+mean:loss:", "-mean:loss:", "-square:loss:", "-softmax:loss:x"});
}

TEST_CASE("gradients of broadcast operands have the operands' shapes", "[tape]") {
  const std::vector<Shape> shapes{{}, {1}, {4}, {1, 4}, {3, 1}, {3, 4}, {2, 1, 4}};
  for (const Shape& a : shapes)
    for (const Shape& b : shapes) {
      Tape tape;
      const Tensor x = tape.variable(random_normal(a, DType::f64, 1)), y = tape.variable(random_normal(b, DType::f64, 2));
      const Gradients gradients = tape.backward(sum(x * y));
      CHECK(gradients.of(x).shape() == a);
      CHECK(gradients.of(y).shape() == b);
    }
}
