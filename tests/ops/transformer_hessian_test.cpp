// Second derivatives of a whole small transformer: attention, layer norm, a feed-forward layer and cross entropy together.
#include "engine/autograd/derivatives.hpp"
#include "engine/ops/attention.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/linear.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/norms.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

constexpr index_t T = 4, D = 4, F = 5, C = 3;

// A post-norm block of two heads and its classifier; x: tokens, then W_q, W_k, W_v, gain, W_1, b_1, W_2, W_c.
TensorFunction loss_with(Score score) {
  return [score](std::span<const Tensor> x) {
    const Tensor tokens = random_normal({T, D}, DType::f64, 90), target = Tensor::from(std::vector<index_t>{0, 2, 1, 1}, {T});
    const Tensor mixed = attention(linear(tokens, x[0]), linear(tokens, x[1]), linear(tokens, x[2]), {.score = score, .causal = true, .heads = 2});
    const Tensor a = layer_norm(tokens + mixed, {.weight = x[3]});
    const Tensor b = a + linear(linear(a, x[4], {.bias = x[5], .activation = Activation::gelu}), x[6]);
    return cross_entropy(linear(rms_norm(b), x[7]), target, {.label_smoothing = 0.1});
  };
}

std::vector<Tensor> weights(std::uint64_t seed) {
  std::vector<Tensor> all;
  for (const Shape& shape : {Shape{D, D}, Shape{D, D}, Shape{D, D}, Shape{D}, Shape{F, D}, Shape{F}, Shape{D, F}, Shape{C, D}})
    all.push_back(random_normal(shape, DType::f64, seed++));
  return all;
}

Tensor flat(const std::vector<Tensor>& tensors) {
  std::vector<double> all;
  for (const Tensor& t : tensors)
    for (const double v : t.to_vector<double>()) all.push_back(v);
  return Tensor::from(all, {static_cast<index_t>(all.size())});
}

}  // namespace

TEST_CASE("the_hessian_of_a_transformer_is_symmetric_and_agrees_with_its_products_and_differences") {
  const Score score = GENERATE(Score::scaled_dot, Score::euclidean);
  const TensorFunction loss = loss_with(score);
  const std::vector<Tensor> at = weights(1), along = weights(50);
  const Tensor h = hessian(loss, at);
  CHECK(max_difference(h, view::transpose(h, 0, 1)) <= 1e-10);
  CHECK(max_difference(h, Tensor::zeros(h.shape(), DType::f64)) > 1e-3);

  const Tensor product = flat(hvp(loss, at, along));
  CHECK(max_difference(product, matmul(h, flat(along))) <= 1e-10);

  const double step = 1e-5;
  std::vector<Tensor> ahead, behind;
  for (std::size_t i = 0; i < at.size(); ++i) {
    ahead.push_back(at[i] + step * along[i]);
    behind.push_back(at[i] - step * along[i]);
  }
  const Tensor one = Tensor::scalar(1, DType::f64);
  const Tensor numeric = (flat(vjp(loss, ahead, one)) - flat(vjp(loss, behind, one))) / (2 * step);
  CHECK(max_difference(product, numeric) <= 1e-6);
}

TEST_CASE("the_spectrum_of_a_transformer_lies_within_its_residuals") {
  const TensorFunction loss = loss_with(Score::scaled_dot);
  const std::vector<Tensor> at = weights(1);
  const Spectrum ends = hessian_spectrum(loss, at);
  CHECK(ends.smallest < ends.largest);
  CHECK(ends.largest_residual <= 1e-7 * std::max(std::abs(ends.smallest), std::abs(ends.largest)));
  CHECK(ends.smallest_residual <= 1e-7 * std::max(std::abs(ends.smallest), std::abs(ends.largest)));
}
