// Linear layers and Einstein sums against plain loops and their elementary ops.
#include "engine/ops/linear.hpp"

#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using gradus::testing::f64;
using gradus::testing::message_of;

namespace {

Tensor normal(const Shape& shape, std::uint64_t stream) { return random_normal(shape, DType::f64, 11, stream); }

}  // namespace

TEST_CASE("linear is x W^T + b and then the activation", "[linear]") {
  const Tensor x = normal({2, 3, 4}, 1), w = normal({5, 4}, 2), b = normal({5}, 3);
  const Tensor plain = matmul(x, transpose(w));
  CHECK(bit_equal(linear(x, w), plain));
  const Tensor biased = linear(x, w, {.bias = b});  // the sums start from the bias: another order than plain + b
  CHECK(max_difference(biased, plain + b) < 1e-14);
  const std::vector<std::pair<Activation, Tensor (*)(const Tensor&)>> activations{
      {Activation::relu, relu}, {Activation::tanh, tanh}, {Activation::sigmoid, sigmoid}, {Activation::rectified_quadratic, rectified_quadratic}};
  for (const auto& [activation, f] : activations) CHECK(bit_equal(linear(x, w, {.bias = b, .activation = activation}), f(biased)));
  CHECK(linear(normal({4}, 1), w).shape() == Shape{5});
}

TEST_CASE("linear names what does not fit", "[linear]") {
  const Tensor x = Tensor::ones({2, 3});
  CHECK(message_of([&] { (void)linear(x, Tensor::ones({3, 5})); }).find("transpose the weight") != std::string::npos);
  CHECK_THROWS_AS(linear(x, Tensor::ones({3})), ShapeError);
  CHECK_THROWS_AS(linear(Tensor::scalar(1), Tensor::ones({3, 5})), ShapeError);
  CHECK_THROWS_AS(linear(x, Tensor::ones({5, 3}), {.bias = Tensor::ones({3})}), ShapeError);
  CHECK_THROWS_AS(linear(x, Tensor::ones({5, 3}, DType::f64)), DTypeError);
  CHECK_THROWS_AS(outer(x, Tensor::ones({3})), ShapeError);
}

TEST_CASE("outer multiplies every pair", "[linear]") { CHECK(equal(outer(f64({1, 2, -3}), f64({10, 0.5})), f64({{10, 0.5}, {20, 1}, {-30, -1.5}}))); }

TEST_CASE("einsum is the sum it says", "[linear][einsum]") {
  const Tensor a = normal({2, 3, 4}, 1), b = normal({4, 5, 2}, 2);
  const Tensor y = einsum("aib,bja->ij", a, b);
  for (index_t i = 0; i < 3; ++i)
    for (index_t j = 0; j < 5; ++j) {
      double total = 0;
      for (index_t p = 0; p < 2; ++p)
        for (index_t q = 0; q < 4; ++q) total += a.at({p, i, q}) * b.at({q, j, p});
      CHECK(y.at({i, j}) == Approx(total).epsilon(1e-13));
    }
  const Tensor x = normal({3, 4}, 3), w = normal({4, 5}, 4), square = normal({4, 4}, 5), u = normal({4}, 6);
  CHECK(all_close(einsum("ij,jk", x, w), matmul(x, w), 1e-14));
  CHECK(all_close(einsum("ij,jk->ki", x, w), transpose(matmul(x, w)), 1e-14));
  CHECK(all_close(einsum("i,i->i", u, u), u * u, 1e-14));
  CHECK(equal(einsum("ij->ji", x), transpose(x)));
  CHECK(equal(einsum("ba", x), transpose(x)));  // numpy's order: alphabetical
  CHECK(all_close(einsum("ij->", x), sum(x), 1e-14));
  CHECK(all_close(einsum("ij->j", x), sum(x, {.axes = {0}}), 1e-14));
  double trace = 0;
  for (index_t i = 0; i < 4; ++i) {
    trace += square.at({i, i});
    CHECK(einsum("ii->i", square).at({i}) == square.at({i, i}));
    CHECK(einsum("ii,i->i", square, u).at({i}) == Approx(square.at({i, i}) * u.at({i})).epsilon(1e-14));
  }
  CHECK(einsum("ii", square).item() == Approx(trace).epsilon(1e-14));
}

TEST_CASE("ellipses of einsum broadcast from the right", "[linear][einsum]") {
  const Tensor a = normal({2, 1, 3, 4}, 1), b = normal({5, 4, 2}, 2);
  const Tensor y = einsum("...ij,...jk->...ik", a, b);
  CHECK(y.shape() == Shape{2, 5, 3, 2});
  CHECK(all_close(y, matmul(a, b), 1e-14));
  CHECK(all_close(einsum("...ij,...jk->ik...", a, b), permute(matmul(a, b), {2, 3, 0, 1}), 1e-14));
  CHECK(all_close(einsum("...,...", normal({3, 1}, 3), normal({4}, 4)), normal({3, 1}, 3) * normal({4}, 4), 1e-14));
  CHECK(einsum("...i->...", a).shape() == Shape{2, 1, 3});
  CHECK(einsum("i...", a).shape() == Shape{1, 3, 4, 2});
  CHECK(einsum("...i,i->...", f64({1, 2}), f64({3, 4})).item() == 11);
}

TEST_CASE("einsum says what is wrong with an equation", "[linear][einsum]") {
  const Tensor x = Tensor::ones({2, 3}), y = Tensor::ones({3, 4});
  for (const char* malformed : {"ij,jk,kl->il", "ij", "ij,j1->i", "ij,jk->im", "ij,jk->ii", "ij,jk->i->k", "i..j,jk->ik", "......ij,jk->ik"}) {
    INFO(malformed);
    CHECK_THROWS_AS(einsum(malformed, x, y), ValueError);
  }
  CHECK_THROWS_AS(einsum("ij,jk->ik", x), ValueError);
  CHECK_THROWS_AS(einsum("...j,jk->k", x, y), ValueError);
  CHECK_THROWS_AS(einsum("ijk,jk->i", x, y), ShapeError);
  CHECK_THROWS_AS(einsum("i,jk->ijk", x, y), ShapeError);
  CHECK_THROWS_AS(einsum("ii->i", x), ShapeError);
  CHECK_THROWS_AS(einsum("...,...", x, Tensor::ones({2, 2})), ShapeError);
  CHECK_THROWS_AS(einsum("ij,jk->ik", x, Tensor::ones({3, 4}, DType::f64)), DTypeError);
  CHECK(message_of([&] { (void)einsum("ij,jk->ik", x, Tensor::ones({4, 5})); }).find("'j' is 3 and 4") != std::string::npos);
  // A letter does not broadcast: that would hide a mistake.
  CHECK_THROWS_AS(einsum("ij,jk->ik", Tensor::ones({2, 1}), y), ShapeError);
}
