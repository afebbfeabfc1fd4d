#include "models/kmeans/transformer.hpp"

#include <cmath>

#include "engine/ops/distance.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus::kmeans {
namespace {

// A square matrix with `sign` on the diagonal of `count` slots from `first`, zero elsewhere.
Tensor block(index_t size, index_t first, index_t count, double sign, DType dtype) {
  Tensor matrix = Tensor::zeros({size, size}, dtype);
  for (index_t i = first; i < first + count; ++i) matrix.set({i, i}, sign);
  return matrix;
}

Tensor project(const Tensor& tokens, const Tensor& weight) { return matmul(tokens, transpose(weight)); }

Tensor attention_map(const Tensor& scores, double inverse_temperature) {
  return std::isinf(inverse_temperature) ? hardmax(scores) : softmax(scores, {.inverse_temperature = inverse_temperature});
}

Tensor attention_scores(const Tensor& query, const Tensor& key, Construction construction) {
  return construction == Construction::euclidean ? neg(squared_distance(query, key)) : matmul(query, transpose(key));
}

Tensor attend(const Tensor& from, const Tensor& to, const AttentionWeights& w, const TransformerOptions& options) {
  const Tensor scores = attention_scores(project(from, w.query), project(to, w.key), options.construction);
  return matmul(attention_map(scores, options.inverse_temperature), project(to, w.value));
}

Tensor self_attend(const Tensor& tokens, const AttentionWeights& w, const TransformerOptions& options) {
  return options.self_attention == SelfAttention::identity ? project(tokens, w.value) : attend(tokens, tokens, w, options);
}

// a_ji = <Q c_j, K x_i> / sum_i: the row-normalised linear attention of the published run.
Tensor linear_weights(const Tensor& centres, const Tensor& data, const AttentionWeights& w) {
  return normalized_linear(matmul(project(centres, w.query), transpose(project(data, w.key))));
}

Tensor write_squared_norms(const Tensor& centres, const LayerWeights& w) {
  return centres + project(rectified_quadratic(project(centres, w.feed_forward_in)), w.feed_forward_out);
}

void require_options(const TransformerOptions& options) {
  if (!(options.inverse_temperature > 0))
    throw ValueError("kmeans", cat("the inverse temperature is ", options.inverse_temperature), "it must be > 0; infinity is the limiting map");
}

}  // namespace

LayerWeights theorem_weights(Construction construction, index_t d, index_t k, DType dtype) {
  const bool dot = construction == Construction::dot_product;
  const index_t size = d + k + (dot ? 2 : 0), norm = d + k, one = d + k + 1;
  const Tensor places = block(size, 0, d, 1, dtype), labels = block(size, d, k, 1, dtype);
  Tensor data_query = copy(places), data_key = copy(places), minus_places = block(size, 0, d, -1, dtype);
  LayerWeights w;
  if (dot) {
    data_query.set({norm, one}, -0.5);  // <Q x, K c> = <x, c> - ||c||^2 / 2: the same order as the distance
    data_key.set({norm, norm}, 1);
    minus_places.set({norm, norm}, -1);
    w.feed_forward_in = Tensor::zeros({2 * d, size}, dtype);
    w.feed_forward_out = Tensor::zeros({size, 2 * d}, dtype);
    for (index_t i = 0; i < d; ++i) {
      w.feed_forward_in.set({i, i}, 1);
      w.feed_forward_in.set({d + i, i}, -1);
      w.feed_forward_out.set({norm, i}, 1);
      w.feed_forward_out.set({norm, d + i}, 1);
    }
  }
  w.cross_data = {data_query, data_key, labels};
  w.self_data = {data_query, data_key, block(size, d, k, -1, dtype)};
  w.cross_centres = {labels, labels, places};
  w.self_centres = {labels, labels, minus_places};
  return w;
}

Tokens embed(const Tensor& points, const Tensor& centres, Construction construction) {
  const index_t n = points.shape()[0], k = centres.shape()[0];
  std::vector<Tensor> data{points, zeros({n, k}, points.dtype())}, centre{centres, Tensor::identity(k, centres.dtype())};
  if (construction == Construction::dot_product) {
    const ReduceOptions along{.axes = {-1}, .keep = true};
    data.insert(data.end(), {sum(square(points), along), Tensor::ones({n, 1}, points.dtype())});
    centre.insert(centre.end(), {sum(square(centres), along), Tensor::ones({k, 1}, centres.dtype())});
  }
  return {concat(data, 1), concat(centre, 1)};
}

Tokens layer(const Tokens& tokens, const LayerWeights& w, const TransformerOptions& options) {
  require_options(options);
  const auto& [data, centres] = tokens;
  const Tensor assigned = data + attend(data, centres, w.cross_data, options) + self_attend(data, w.self_data, options);
  const Tensor cleared = self_attend(centres, w.self_centres, options);
  if (options.centre_update == CentreUpdate::softmax) {
    const Tensor updated = centres + attend(centres, assigned, w.cross_centres, options) + cleared;
    return {assigned, w.feed_forward_in.defined() ? write_squared_norms(updated, w) : updated};
  }
  const Tensor weights = linear_weights(centres, assigned, w.cross_centres);
  const Tensor updated = centres + matmul(weights, project(assigned, w.cross_centres.value)) + cleared;
  // No weight at all: the law says that the centre stays.
  const Tensor starved = equal_to(sum(weights, {.axes = {-1}, .keep = true}), 0.0);
  return {assigned, where(starved, centres, w.feed_forward_in.defined() ? write_squared_norms(updated, w) : updated)};
}

}  // namespace gradus::kmeans
