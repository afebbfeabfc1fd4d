// Dropout: how often, from what numbers, and the same mask both ways.
#include "engine/ops/dropout.hpp"

#include "engine/core/parallel.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using gradus::testing::not_a_number;

namespace {

// Share of elements that are not 0.
double share_kept(const Tensor& y) { return mean(cast(not_equal(y, Tensor::scalar(0, y.dtype())), DType::f64)).item(); }

}  // namespace

TEST_CASE("dropout omits a share p and scales what it keeps", "[dropout]") {
  const Tensor x = Tensor::ones({100000});
  for (const double p : {0.1, 0.5, 0.9}) {
    const Tensor y = dropout(x, p);
    CHECK(std::fabs(share_kept(y) - (1 - p)) < 4 * std::sqrt(p * (1 - p) / 1e5));
    CHECK(max(y).item() == Approx(1 / (1 - p)).epsilon(1e-6));
    CHECK(min(y).item() == 0);
  }
}

TEST_CASE("the mask of the forward pass is the mask of the backward pass", "[dropout]") {
  Tape tape;
  const Tensor x = tape.variable(random_normal({50, 7}, DType::f64, 1));
  const Tensor y = dropout(x, 0.3), z = dropout(x, 0.3);
  CHECK_FALSE(equal(y.detached(), z.detached()));
  const Tensor g = tape.backward(y, {.cotangent = x.detached()}).of(x);
  CHECK(bit_equal(g, y.detached()));
}

TEST_CASE("a pass draws anew, a seed starts anew, an edit replay keeps the mask", "[dropout]") {
  const Tensor data = Tensor::ones({64}, DType::f64);
  const auto draw = [&](Tape& tape, std::uint64_t seed) { return dropout(tape.variable(data), 0.5, {.seed = seed}).detached(); };
  Tape one, two;
  const Tensor first = draw(one, 3);
  CHECK(equal(first, draw(two, 3)));
  one.clear();
  CHECK_FALSE(equal(first, draw(one, 3)));
  two.clear();
  CHECK_FALSE(equal(draw(one, 4), draw(two, 3)));

  Tape tape({.retain = Retain::all});
  const Tensor x = tape.variable(data);
  const Tensor y = dropout(x, 0.5);
  const Tensor before = copy(tape.value(y));
  tape.replay();
  CHECK(equal(tape.value(y), before));
  tape.replay({.advance_noise = true});
  CHECK_FALSE(equal(tape.value(y), before));
}

TEST_CASE("evaluation leaves x alone unless dropout is always on", "[dropout]") {
  const Tensor x = random_normal({200}, DType::f32, 1);
  CHECK(bit_equal(dropout(x, 0.5, {.training = false}), x));
  CHECK(bit_equal(dropout(x, 0), x));
  CHECK(bit_equal(dropout(x, 0.5, {.training = false, .always_on = true}), dropout(x, 0.5)));
  CHECK_FALSE(equal(dropout(x, 0.5), x));
}

TEST_CASE("masks depend on neither threads nor dtype nor what x holds", "[dropout][parallel]") {
  const Tensor x = random_normal({300, 401}, DType::f32, 1);
  const int before = thread_count();
  set_thread_count(1);
  const Tensor mask = dropout_mask(x, 0.25, 5);
  for (const int threads : {2, 7}) {
    set_thread_count(threads);
    CHECK(equal(dropout_mask(x, 0.25, 5), mask));
  }
  set_thread_count(before);
  CHECK(equal(dropout_mask(Tensor::full(x.shape(), not_a_number, DType::f64), 0.25, 5), mask));
  // An omitted NaN is gone, a kept one is not.
  const Tensor y = dropout(Tensor::full({40}, not_a_number), 0.5);
  CHECK(share_kept(y) < 1);
  CHECK(std::isnan(max(y).item()));
}

TEST_CASE("dropout refuses probabilities below 0 and from 1 on", "[dropout]") {
  for (const double p : {-0.1, 1.0, 2.0, not_a_number}) {
    CHECK_THROWS_AS(dropout(Tensor::ones({3}), p), ValueError);
    CHECK_THROWS_AS(dropout(Tensor::ones({3}), p, {.training = false}), ValueError);
  }
}
