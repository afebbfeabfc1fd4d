#include "engine/ops/attention_parts.hpp"

#include "engine/ops/distance.hpp"
#include "engine/ops/distance_gradient.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/map_rows.hpp"
#include "engine/ops/masked_product.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/random_stream.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus {
namespace {

using define::AttentionAttributes;
using define::AttentionInputs;
using define::with_matrix;

constexpr double infinity = std::numeric_limits<double>::infinity();

template <class Get>
AttentionInputs collect(const AttentionAttributes& a, int count, Get&& get) {
  AttentionInputs in{get(0), get(1), get(2), {}, {}, {}};
  int next = 3;
  if (a.tensor_temperature) in.beta = get(next++);
  if (a.dropped) in.stream = get(next++);
  while (next < count) in.masks.push_back(get(next++));
  return in;
}

// All bool masks as one, and the additive one; undefined where there are none.
struct Masks {
  Tensor keep, shift;
};
Masks combined(const AttentionInputs& in, const AttentionAttributes& a) {
  Masks masks;
  const auto also_keep = [&](const Tensor& mask) { masks.keep = masks.keep.defined() ? where(masks.keep, mask, Tensor::zeros({}, DType::boolean)) : mask; };
  for (const Tensor& mask : in.masks) {
    if (mask.dtype() == DType::boolean) also_keep(mask);
    else masks.shift = mask;
  }
  if (a.causal) also_keep(greater_equal(unsqueeze(Tensor::arange(in.q.size(-2)), -1), Tensor::arange(in.k.size(-2))));
  return masks;
}

Tensor times(const Tensor& a, const Tensor& b, const Tensor& keep) { return keep.defined() ? masked_matmul(a, b, keep) : matmul(a, b); }
Tensor sampled(const Tensor& a, const Tensor& b, const Tensor& keep) { return keep.defined() ? sampled_matmul(a, b, keep) : matmul(a, b); }
Tensor transposed(const Tensor& t) { return t.defined() ? transpose(t) : t; }

// (batch, Tq, Tk)
Tensor scores_of(const AttentionInputs& in, const AttentionAttributes& a, const Tensor& keep) {
  Tensor raw;
  if (a.score != Score::euclidean) raw = sampled(in.q, transpose(in.k), keep);
  else raw = keep.defined() ? sampled_squared_distance(in.q, in.k, keep) : squared_distance(in.q, in.k);
  const double factor = define::score_factor(a.score, in.q.size(-1));
  const Tensor scores = factor == 1 ? raw : factor * raw;
  const Shape all = with_matrix(in.batch(), in.q.size(-2), in.k.size(-2));
  return scores.shape() == all ? scores : expand(scores, all);
}

Number temperature(const AttentionInputs& in, const AttentionAttributes& a) { return in.beta.defined() ? Number(in.beta) : Number(a.inverse_temperature); }

Tensor weights_of(const AttentionInputs& in, const AttentionAttributes& a, const Tensor& scores, const Masks& masks) {
  const MapSpec map{.kind = a.map, .inverse_temperature = temperature(in, a), .alpha = a.alpha, .hard = a.hard, .seed = a.map_seed};
  if (masks.keep.defined() && masks.shift.defined()) return apply_map(scores, map, -1, where(masks.keep, masks.shift, -infinity));
  return apply_map(scores, map, -1, masks.keep.defined() ? masks.keep : masks.shift);
}

Tensor dropped(const AttentionInputs& in, const AttentionAttributes& a, const Tensor& weights) {
  return a.dropped ? dropout_by_stream(weights, in.stream, a.dropout, a.dropout_seed) : weights;
}

// dL / d(beta score + masks) from dL / dweights.
Tensor through_map(const AttentionInputs& in, const AttentionAttributes& a, const Tensor& scores, const Masks& masks, const Tensor& weights, const Tensor& g) {
  const ReduceOptions along{.axes = {-1}, .keep = true};
  if (a.map == MapKind::softmax) {
    const Tensor weighted = where(equal_to(weights, 0.0), 0.0, weights * g);
    return weighted - weights * sum(weighted, along);
  }
  Tensor z = define::scaled_scores("attention", scores, temperature(in, a));
  Tensor reached = masks.keep;
  if (masks.shift.defined()) {
    z = z + masks.shift;
    const Tensor present = not_equal(z, scalar_like(z, -infinity));
    reached = reached.defined() ? where(reached, present, Tensor::zeros({}, DType::boolean)) : present;
  }
  if (reached.defined()) z = where(reached, z, 0.0);
  const Tensor total = sum(z, along), zero = equal_to(total, 0.0);
  const Tensor slopes = where(zero, 0.0, (g - sum(weights * g, along)) / where(zero, 1.0, total));
  return reached.defined() ? where(reached, slopes, 0.0) : slopes;
}

// The gradients of the scores as those of queries and keys.
void through_scores(Vjp& b, const AttentionInputs& in, const AttentionAttributes& a, const Tensor& keep, const Tensor& gradient) {
  const Tensor g = define::score_factor(a.score, in.q.size(-1)) * gradient, g_keys = transpose(g), keep_keys = transposed(keep);
  if (a.score != Score::euclidean) {
    if (b.needs(0)) b.to(0, times(g, in.k, keep));
    if (b.needs(1)) b.to(1, times(g_keys, in.q, keep_keys));
    return;
  }
  const define::MovedPoints moved = define::moved_near_origin(in.q, in.k);
  if (b.needs(0)) b.to(0, define::distance_gradient(moved.x, moved.c, g, keep));
  if (b.needs(1)) b.to(1, define::distance_gradient(moved.c, moved.x, g_keys, keep_keys));
}

}  // namespace

define::AttentionInputs define::inputs_of(const Run& r) {
  return collect(r.attr<AttentionAttributes>(), r.inputs(), [&](int i) { return r.in(i); });
}
define::AttentionInputs define::inputs_of(const Vjp& b) {
  return collect(b.attr<AttentionAttributes>(), b.inputs(), [&](int i) { return b.input(i); });
}

AttentionResult define::attention_by_parts(const AttentionInputs& in, const AttentionAttributes& a) {
  const Masks masks = combined(in, a);
  const Tensor weights = weights_of(in, a, scores_of(in, a, masks.keep), masks);
  return {times(dropped(in, a, weights), in.v, masks.keep), weights};
}

void define::attention_vjp(Vjp& b) {
  const auto& a = b.attr<AttentionAttributes>();
  const AttentionInputs in = inputs_of(b);
  const Masks masks = combined(in, a);
  const Tensor scores = scores_of(in, a, masks.keep), weights = weights_of(in, a, scores, masks);
  if (b.needs(2)) b.to(2, times(transpose(dropped(in, a, weights)), b.grad(), transposed(masks.keep)));
  const Tensor to_weights = dropped(in, a, sampled(b.grad(), transpose(in.v), masks.keep));
  const Tensor g = through_map(in, a, scores, masks, weights, to_weights);
  const int first_mask = b.inputs() - static_cast<int>(in.masks.size());
  for (int i = first_mask; i < b.inputs(); ++i)
    if (b.needs(i)) b.to(i, g);
  if (!a.tensor_temperature) return through_scores(b, in, a, masks.keep, a.inverse_temperature * g);
  if (b.needs(3)) b.to(3, sum(where(equal_to(g, 0.0), 0.0, g * scores)));
  through_scores(b, in, a, masks.keep, in.beta * g);
}

void define::attention_fused_vjp(Vjp& b) {
  const auto& a = b.attr<AttentionAttributes>();
  const AttentionInputs in = inputs_of(b);
  // The gradient of an additive mask is a matrix of the size that the blocks avoid.
  for (int i = b.inputs() - static_cast<int>(in.masks.size()); i < b.inputs(); ++i)
    if (b.needs(i)) return attention_vjp(b);
  const Shape batch = in.batch();
  const DType dtype = in.q.dtype();
  const auto room = [&](index_t rows, index_t columns) { return Tensor::empty(with_matrix(batch, rows, columns), dtype); };
  AttentionGradients g;
  if (b.needs(0)) g.q = room(in.q.size(-2), in.q.size(-1));
  if (b.needs(1)) g.k = room(in.k.size(-2), in.k.size(-1));
  if (b.needs(2)) g.v = room(in.v.size(-2), in.v.size(-1));
  if (a.tensor_temperature && b.needs(3)) g.beta = Tensor::empty({}, dtype);
  attention_backward(in, a, b.output(0), b.output(1), b.grad(), g);
  if (g.q.defined()) b.to(0, g.q);
  if (g.k.defined()) b.to(1, g.k);
  if (g.v.defined()) b.to(2, g.v);
  if (g.beta.defined()) b.to(3, g.beta);
}

}  // namespace gradus
