// Training steps.
#include <cmath>

#include "bench/runner/step.hpp"
#include "engine/core/random.hpp"
#include "engine/ops/activation.hpp"
#include "engine/ops/attention.hpp"
#include "engine/ops/clustering_loss.hpp"
#include "engine/ops/distance.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/linear.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/norms.hpp"
#include "engine/ops/reduce.hpp"
#include "models/parity/train.hpp"

namespace gradus::bench {
namespace {

Tensor numbers(const Shape& shape, double scale, std::uint64_t seed) { return random_normal(shape, DType::f32, seed) * scale; }
// Adds NAME/weight (out, in) and NAME/bias.
void add_linear(ParameterSet& p, const std::string& name, index_t in, index_t out) {
  p.add(name + "/weight", numbers({out, in}, 1 / std::sqrt(static_cast<double>(in)), static_cast<std::uint64_t>(p.size() + 1)));
  p.add(name + "/bias", Tensor::zeros({out}, DType::f32));
}
// Parameters i and i + 1 of a set, applied.
Tensor apply_linear(const WatchedParameters& p, int i, const Tensor& x, Activation activation = Activation::none) {
  return linear(x, p[i], {.bias = p[i + 1], .activation = activation});
}

Work mlp_step(const Words& w) {
  ParameterSet p;
  add_linear(p, "0", 64, 128);
  add_linear(p, "1", 128, 128);
  add_linear(p, "2", 128, 10);
  const Tensor x = numbers({w.number(0), 64}, 1, 9), target = labels({w.number(0)}, 10);
  return training_step(std::move(p), make_adamw(), [x, target](const WatchedParameters& q) {
    const Tensor h = apply_linear(q, 2, apply_linear(q, 0, x, Activation::relu), Activation::relu);
    return cross_entropy(apply_linear(q, 4, h), target);
  });
}

// Pre-norm encoder: B sequences of T tokens, width d, 4 heads, feed-forward 4 d, vocabulary 1000.
Work encoder_step(const Words& w) {
  const index_t b = w.number(0), t = w.number(1), d = w.number(2);
  const int layers = static_cast<int>(w.number(3)), heads = 4, per_layer = 12;
  ParameterSet p;
  p.add("embedding", numbers({1000, d}, 1, 1));
  add_linear(p, "head", d, 1000);
  for (int i = 0; i < layers; ++i) {
    const std::string layer = "layer" + std::to_string(i) + "/";
    for (const char* norm : {"norm0", "norm1"}) {
      p.add(layer + norm + "/weight", Tensor::ones({d}, DType::f32));
      p.add(layer + norm + "/bias", Tensor::zeros({d}, DType::f32));
    }
    add_linear(p, layer + "in", d, 3 * d);
    add_linear(p, layer + "out", d, d);
    add_linear(p, layer + "up", d, 4 * d);
    add_linear(p, layer + "down", 4 * d, d);
  }
  const Tensor ids = labels({b, t}, 1000);
  return training_step(std::move(p), make_adamw(), [=](const WatchedParameters& q) {
    Tensor x = embedding(q[0], ids);
    for (int at = 3; at < q.size(); at += per_layer) {
      const TensorList qkv = split(apply_linear(q, at + 4, layer_norm(x, {.weight = q[at], .bias = q[at + 1]})), 3, -1);
      x = x + apply_linear(q, at + 6, attention(qkv[0], qkv[1], qkv[2], {.heads = heads}));
      const Tensor up = gelu(apply_linear(q, at + 8, layer_norm(x, {.weight = q[at + 2], .bias = q[at + 3]})));
      x = x + apply_linear(q, at + 10, up);
    }
    return cross_entropy(apply_linear(q, 1, x), ids);
  });
}

// Paper 1's layer: four Euclidean attentions with biases on points and centres with one-hot scratch, always-on dropout.
Work paper1_step(const Words& w) {
  const index_t batch = w.number(0), n = w.number(1), d = w.number(2), k = w.number(3), width = d + k;
  ParameterSet p;
  for (const char* block : {"0", "1", "2", "3"})
    for (const char* part : {"query", "key", "value"}) add_linear(p, cat(block, "/", part), width, width);
  Tensor points = Tensor::empty({batch, n, d}, DType::f32);
  Random(1).fill_uniform(std::span(points.mutable_data<float>(), static_cast<std::size_t>(points.numel())));
  const Tensor x = pad(points, -1, 0, k);
  const Tensor parts[] = {slice(points, 1, {0, k}), expand(one_hot(Tensor::arange(k), k), {batch, k, k})};
  const Tensor c = concat(parts, -1);
  return training_step(std::move(p), make_adam({.learning_rate = 0.01}), [=](const WatchedParameters& q) {
    const auto attend = [&](int block, const Tensor& to, const Tensor& from) {
      return attention(apply_linear(q, 6 * block, to), apply_linear(q, 6 * block + 2, from), apply_linear(q, 6 * block + 4, from),
                       {.score = Score::euclidean, .map = {.inverse_temperature = 1 / std::sqrt(static_cast<double>(width))}, .dropout = 0.01});
    };
    const Tensor x1 = x + attend(0, x, c) + attend(1, x, x);
    const Tensor c1 = c + attend(2, c, x1) + attend(3, c, c);
    return smoothed_kmeans_loss(points, slice(c1, -1, {0, d}), {.inverse_temperature = 10.0});
  });
}

// One tied encoder-decoder layer applied `layers` times: Euclidean attention assigns, dot-product attention moves the centres.
Work kmeans_transformer_step(const Words& w) {
  const index_t batch = w.number(0), n = w.number(1), d = w.number(2), k = w.number(3), width = d + k;
  const index_t layers = w.number(4);
  ParameterSet p;
  for (const char* name : {"encoder/query", "encoder/key", "decoder/query", "decoder/key", "decoder/value"})
    p.add(name, Tensor::identity(width) + numbers({width, width}, 0.01, static_cast<std::uint64_t>(p.size() + 1)));
  p.add("inverse_temperature", Tensor::full({}, 5, DType::f32));
  const Tensor points = numbers({batch, n, d}, 1, 7), scratch = expand(one_hot(Tensor::arange(k), k), {batch, k, k});
  return training_step(std::move(p), make_adam(), [=](const WatchedParameters& q) {
    const auto joined = [](const Tensor& a, const Tensor& b) {
      const Tensor both[] = {a, b};
      return concat(both, -1);
    };
    Tensor centres = slice(points, 1, {0, k}), weights = Tensor::zeros({batch, n, k}, DType::f32);
    for (index_t layer = 0; layer < layers; ++layer) {
      const Tensor z = joined(centres, scratch);
      weights = attention(matmul(joined(points, weights), q[0]), matmul(z, q[1]), scratch, {.score = Score::euclidean, .map = {.inverse_temperature = q[5]}});
      const Tensor x = joined(points, weights);
      centres = slice(attention(matmul(z, q[2]), matmul(x, q[3]), matmul(x, q[4]), {.score = Score::dot}), -1, {0, d});
    }
    return mean(-0.1 * logsumexp(-10.0 * squared_distance(points, centres), {.axes = {-1}}));
  });
}

Work ddcl_step(const Words& w) {
  const index_t items = w.number(0), tokens = w.number(1), d = w.number(2), k = w.number(3);
  return both_ways({numbers({items, tokens, d}, 1, 1), numbers({k, d}, 1, 2)}, [](auto x) { return smoothed_kmeans_loss(x[0], x[1]); });
}

// One gradient step of the two queries on packed signs, in f32.
Work xor_step(const Words& w) {
  const index_t n = w.number(0), d = w.number(1), m = w.number(2);
  parity::Problem problem = parity::make_problem(d, m, 2, 1);
  const Tensor signs = parity::random_signs(n, d, Random(2)), targets = parity::targets_of(signs, problem.support, DType::f32);
  const auto queries = std::make_shared<Tensor>(cast(parity::initial_queries(problem, parity::Start::anti_symmetric, 1), DType::f32));
  problem.positions = cast(problem.positions, DType::f32);
  return [=] { *queries = *queries - 0.1 * parity::sampled(problem, *queries, parity::Attention::softmax, signs, targets).gradient; };
}

}  // namespace

std::vector<Kind> step_kinds() {
  return {{"mlp", "BATCH", mlp_step},
          {"encoder", "BATCH TOKENS WIDTH LAYERS", encoder_step},
          {"paper1", "BATCH N D K", paper1_step},
          {"kmeans_transformer", "BATCH N D K LAYERS", kmeans_transformer_step},
          {"ddcl", "ITEMS TOKENS D K", ddcl_step},
          {"xor", "SAMPLES BITS EMBEDDING", xor_step}};
}

}  // namespace gradus::bench
