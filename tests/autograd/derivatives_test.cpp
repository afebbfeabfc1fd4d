// Products with Jacobians and Hessians, whole matrices, the ends of spectra.
#include "engine/autograd/derivatives.hpp"

#include <cmath>

#include "engine/autograd/gradcheck.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/tensor/view.hpp"
#include "tests/catch.hpp"

using namespace gradus;

namespace {

using Inputs = std::span<const Tensor>;

// Two layers with an attention-like map between them; smooth, with mixed second derivatives everywhere.
Tensor small_network(Inputs x) { return mean(square(matmul(softmax(matmul(x[0], x[1])), tanh(x[2])))); }

std::vector<Tensor> network_inputs() {
  return {random_normal({3, 4}, DType::f64, 1), random_normal({4, 5}, DType::f64, 2), random_normal({5, 2}, DType::f64, 3)};
}

std::vector<Tensor> directions() { return {random_normal({3, 4}, DType::f64, 4), random_normal({4, 5}, DType::f64, 5), random_normal({5, 2}, DType::f64, 6)}; }

Tensor flat(const std::vector<Tensor>& tensors) {
  std::vector<double> all;
  for (const Tensor& t : tensors)
    for (double v : t.to_vector<double>()) all.push_back(v);
  return Tensor::from(all, {static_cast<index_t>(all.size())});
}

}  // namespace

TEST_CASE("hvp is the hessian times the vector, and the hessian is symmetric") {
  const auto x = network_inputs(), v = directions();
  const Tensor h = hessian(small_network, x);
  REQUIRE(h.shape() == Shape{42, 42});
  CHECK(max_difference(h, view::transpose(h, 0, 1)) <= 1e-10);
  CHECK(max_difference(flat(hvp(small_network, x, v)), matmul(h, flat(v))) <= 1e-12);
}

TEST_CASE("jvp and vjp are the jacobian times a vector from either side") {
  const auto f = [](Inputs x) { return sin(matmul(x[0], x[1])) * x[2]; };
  const std::vector<Tensor> x{random_normal({2, 3}, DType::f64, 1), random_normal({3, 4}, DType::f64, 2), random_normal({4}, DType::f64, 3)};
  const std::vector<Tensor> v{random_normal({2, 3}, DType::f64, 4), random_normal({3, 4}, DType::f64, 5), random_normal({4}, DType::f64, 6)};
  const Tensor u = random_normal({2, 4}, DType::f64, 7);
  const Tensor j = jacobian(f, x);
  REQUIRE(j.shape() == Shape{8, 22});
  CHECK(max_difference(flat({jvp(f, x, v)}), matmul(j, flat(v))) <= 1e-12);
  CHECK(max_difference(flat(vjp(f, x, u)), matmul(flat({u}), j)) <= 1e-12);
}

TEST_CASE("jvp agrees with a central difference") {
  const auto x = network_inputs(), v = directions();
  const double step = 1e-5;
  std::vector<Tensor> ahead, behind;
  for (std::size_t i = 0; i < x.size(); ++i) {
    ahead.push_back(x[i] + step * v[i]);
    behind.push_back(x[i] - step * v[i]);
  }
  const double numeric = (small_network(ahead).item() - small_network(behind).item()) / (2 * step);
  CHECK(jvp(small_network, x, v).item() == Approx(numeric).epsilon(1e-8));
}

TEST_CASE("functions without second derivatives, or without any, give zeros of the right shape") {
  const std::vector<Tensor> x{random_normal({3}, DType::f64, 1)}, v{Tensor::ones({3}, DType::f64)};
  const auto linear = [](Inputs in) { return sum(in[0] * 2.0); };
  const auto constant = [](Inputs) { return Tensor::scalar(1, DType::f64); };
  CHECK(equal(hvp(linear, x, v)[0], Tensor::zeros({3}, DType::f64)));
  CHECK(equal(hessian(constant, x), Tensor::zeros({3, 3}, DType::f64)));
  CHECK(jvp(constant, x, v).item() == 0);
  CHECK(jvp(linear, x, v).item() == 6);
}

TEST_CASE("integer inputs are constants, and directions count the floating ones only") {
  const auto f = [](Inputs in) { return sum(square(in[1]) * cast(in[0], DType::f64)); };
  const std::vector<Tensor> x{Tensor::of({2, 3}, DType::i64), Tensor::of({1, 1}, DType::f64)}, v{Tensor::ones({2}, DType::f64)};
  CHECK(equal(hvp(f, x, v)[0], Tensor::of({4, 6}, DType::f64)));
  CHECK_THROWS_AS(hvp(f, x, x), ValueError);
  CHECK_THROWS_AS(hvp(f, x, std::vector<Tensor>{Tensor::ones({3}, DType::f64)}), ShapeError);
  CHECK_THROWS_AS(hessian([](Inputs in) { return in[1] * 2.0; }, x), ShapeError);
  CHECK_THROWS_AS(jvp(f, std::vector<Tensor>{x[0]}, v), ValueError);
}

TEST_CASE("the ends of a spectrum lie within their residuals of the true ones") {
  // A quadratic form whose eigenvalues are known: a diagonal turned by a reflection.
  const index_t n = 30;
  std::vector<double> diagonal;
  for (index_t i = 0; i < n; ++i) diagonal.push_back(static_cast<double>(i) * 0.37 - 4.0);
  const Tensor u = random_normal({n, 1}, DType::f64, 3);
  const Tensor q = Tensor::identity(n, DType::f64) - 2.0 / sum(square(u)).item() * matmul(u, view::transpose(u, 0, 1));
  const Tensor d = Tensor::from(diagonal, {n, 1});
  const auto form = [&](Inputs x) { return 0.5 * sum(square(matmul(q, x[0])) * d); };
  const std::vector<Tensor> at{random_normal({n, 1}, DType::f64, 4)};
  const Spectrum whole = hessian_spectrum(form, at);
  CHECK(whole.smallest == Approx(diagonal.front()).margin(1e-8));
  CHECK(whole.largest == Approx(diagonal.back()).margin(1e-8));
  const Spectrum early = hessian_spectrum(form, at, {.iterations = 8});
  CHECK(early.iterations == 8);
  const auto distance = [&](double value) {
    double least = 1e300;
    for (double x : diagonal) least = std::min(least, std::fabs(x - value));
    return least;
  };
  CHECK(early.largest_residual > 1e-8);
  CHECK(distance(early.largest) <= early.largest_residual * (1 + 1e-9));
  CHECK(distance(early.smallest) <= early.smallest_residual * (1 + 1e-9));
}

TEST_CASE("the spectrum of a network is that of its hessian") {
  const auto x = network_inputs();
  const Spectrum ends = hessian_spectrum(small_network, x);
  const Tensor h = hessian(small_network, x);
  // Power iteration on the matrix, shifted so that each end in turn is the largest in size.
  const auto power = [&](double shift) {
    const Tensor m = h - shift * Tensor::identity(42, DType::f64);
    Tensor v = random_normal({42, 1}, DType::f64, 9);
    for (int i = 0; i < 20000; ++i) {
      v = matmul(m, v);
      v = v / std::sqrt(sum(square(v)).item());
    }
    return sum(v * matmul(m, v)).item() + shift;
  };
  CHECK(ends.largest == Approx(power(ends.smallest)).margin(1e-7));
  CHECK(ends.smallest == Approx(power(ends.largest)).margin(1e-7));
}

TEST_CASE("backward of several values is the sum of their backwards") {
  Tape tape;
  const Tensor x = tape.variable(random_normal({4}, DType::f64, 1));
  const std::vector<Tensor> ys{exp(x), sum(square(x)), x},
      seeds{random_normal({4}, DType::f64, 2), Tensor::scalar(3, DType::f64), Tensor::ones({4}, DType::f64)};
  const Tensor together = tape.backward(ys, seeds).of(x);
  Tensor apart = Tensor::zeros({4}, DType::f64);
  for (std::size_t i = 0; i < ys.size(); ++i) apart = apart + tape.backward(ys[i], {.cotangent = seeds[i]}).of(x);
  CHECK(max_difference(together, apart) <= 1e-15);
  CHECK_THROWS_AS(tape.backward(ys, std::span(seeds).first(2)), ValueError);
}
