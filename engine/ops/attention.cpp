#include "engine/ops/attention.hpp"

#include "engine/ops/attention_blocks.hpp"
#include "engine/ops/distance.hpp"
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
using define::batch_of;
using define::Inputs;
using define::with_matrix;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Where the inputs of an op are: in a Run or, saved, in a Vjp.
template <class Get>
AttentionInputs inputs_of(const AttentionAttributes& a, int count, Get&& get) {
  AttentionInputs in{get(0), get(1), get(2), {}, {}, {}};
  int next = 3;
  if (a.tensor_temperature) in.beta = get(next++);
  if (a.dropped) in.stream = get(next++);
  while (next < count) in.masks.push_back(get(next++));
  return in;
}
AttentionInputs inputs_of(const Run& r) {
  return inputs_of(r.attr<AttentionAttributes>(), r.inputs(), [&](int i) { return r.in(i); });
}
AttentionInputs inputs_of(const Vjp& b) {
  return inputs_of(b.attr<AttentionAttributes>(), b.inputs(), [&](int i) { return b.input(i); });
}

void check_sizes(const AttentionInputs& in, const char* op) {
  const Shape &q = in.q.shape(), &k = in.k.shape(), &v = in.v.shape();
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2)
    throw ShapeError(op, cat("q is ", q, ", k ", k, ", v ", v), "give (..., Tq, D), (..., Tk, D) and (..., Tk, Dv)");
  if (q.back() != k.back()) throw ShapeError(op, cat("the sizes of queries and keys differ: q is ", q, ", k ", k), "their last axes must agree");
  if (k[k.rank() - 2] != v[v.rank() - 2])
    throw ShapeError(op, cat("the numbers of keys and values differ: k is ", k, ", v ", v), "their axes before the last must agree");
}

void check_masks(const AttentionInputs& in, const Shape& weights, const char* op) {
  for (const Tensor& mask : in.masks) {
    if (mask.dtype() != DType::boolean && mask.dtype() != in.q.dtype())
      throw DTypeError(op, cat("a mask is ", name_of(mask.dtype()), ", q ", name_of(in.q.dtype())), "give bool (true keeps) or the dtype of q (added)");
    if (mask.rank() > weights.rank() || broadcast_shapes(mask.shape(), weights, op) != weights)
      throw ShapeError(op, cat("a mask has shape ", mask.shape(), ", the weights ", weights), "the mask must broadcast to the weights");
  }
}

// Shape rule of attention, fused or not.
void check_attention(Run& r) {
  const auto& a = r.attr<AttentionAttributes>();
  for (int i = 0; i < 3; ++i) define::require_floating(r, i);
  define::require_same_dtype(r, 0, 1);
  define::require_same_dtype(r, 0, 2);
  const AttentionInputs in = inputs_of(r);
  check_sizes(in, r.name());
  const Shape batch = in.batch();
  check_masks(in, with_matrix(batch, in.q.size(-2), in.k.size(-2)), r.name());
  if (a.tensor_temperature) {
    define::require_same_dtype(r, 0, 3);
    if (in.beta.rank() != 0) throw ShapeError(r.name(), cat("the inverse temperature has shape ", in.beta.shape()), "give a number or a rank-0 tensor");
  }
  define::require_positive(r.name(), "the inverse temperature", a.tensor_temperature ? in.beta.item() : a.inverse_temperature);
  if (!(a.dropout >= 0 && a.dropout < 1)) throw ValueError(r.name(), cat("the probability of dropout is ", a.dropout), "0 <= p < 1");
  if (a.map == MapKind::log_softmax) throw ValueError(r.name(), "log_softmax gives logarithms of weights", "use softmax");
  r.declare(with_matrix(batch, in.q.size(-2), in.v.size(-1)), in.q.dtype());
  r.declare(with_matrix(batch, in.q.size(-2), 2), in.q.dtype());
}

// ---- the parts -------------------------------------------------------------------------------------------------------------------

// All bool masks as one, and all additive masks as one; undefined where there are none.
struct Masks {
  Tensor keep, shift;
};
Masks combined(const AttentionInputs& in, const AttentionAttributes& a) {
  Masks masks;
  const auto also_keep = [&](const Tensor& mask) { masks.keep = masks.keep.defined() ? where(masks.keep, mask, Tensor::zeros({}, DType::boolean)) : mask; };
  for (const Tensor& mask : in.masks) {
    if (mask.dtype() == DType::boolean) also_keep(mask);
    else masks.shift = masks.shift.defined() ? masks.shift + mask : mask;
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
  const Tensor scores = factor == 1 ? raw : factor == -1 ? -raw : factor * raw;
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

AttentionResult by_parts(const AttentionInputs& in, const AttentionAttributes& a) {
  const Masks masks = combined(in, a);
  const Tensor weights = weights_of(in, a, scores_of(in, a, masks.keep), masks);
  return {times(dropped(in, a, weights), in.v, masks.keep), weights};
}

Tensor composite(Run& r) { return by_parts(inputs_of(r), r.attr<AttentionAttributes>()).output; }

// ---- backward of the fused op ----------------------------------------------------------------------------------------------------

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
  // A point that no entry reads is not to be multiplied by its sum of 0.
  const auto times_sum = [](const Tensor& point, const Tensor& slopes, const Tensor& kept) {
    const Tensor total = sum(slopes, {.axes = {-1}, .keep = true});
    if (!kept.defined() || kept.numel() == 0) return point * total;
    return where(greater(max(cast(kept, point.dtype()), {.axes = {-1}, .keep = true}), 0.0), point, 0.0) * total;
  };
  if (b.needs(0)) b.to(0, 2.0 * (times_sum(in.q, g, keep) - times(g, in.k, keep)));
  if (b.needs(1)) b.to(1, 2.0 * (times_sum(in.k, g_keys, keep_keys) - times(g_keys, in.q, keep_keys)));
}

void attention_vjp(Vjp& b) {
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

void attention_fused_vjp(Vjp& b) {
  const auto& a = b.attr<AttentionAttributes>();
  const AttentionInputs in = inputs_of(b);
  // The gradient of an additive mask is a matrix of the size that the blocks avoid.
  for (int i = b.inputs() - static_cast<int>(in.masks.size()); i < b.inputs(); ++i)
    if (b.needs(i)) return attention_vjp(b);
  const Shape batch = in.batch();
  const DType dtype = in.q.dtype();
  const auto room = [&](index_t rows, index_t columns) { return Tensor::empty(with_matrix(batch, rows, columns), dtype); };
  const bool temperature_too = a.tensor_temperature && b.needs(3);
  define::AttentionGradients g;
  if (b.needs(0) || temperature_too) g.q = room(in.q.size(-2), in.q.size(-1));
  if (temperature_too) g.beta = Tensor::empty({}, dtype);
  if (b.needs(1) || b.needs(2)) {
    g.k = room(in.k.size(-2), in.k.size(-1));
    g.v = room(in.v.size(-2), in.v.size(-1));
  }
  define::attention_backward(in, a, b.output(0), b.output(1), b.grad(), g);
  if (g.q.defined()) b.to(0, g.q);
  if (g.k.defined()) b.to(1, g.k);
  if (g.v.defined()) b.to(2, g.v);
  if (g.beta.defined()) b.to(3, g.beta);
}

// ---- calls -----------------------------------------------------------------------------------------------------------------------

// What an op is applied to.
struct Call {
  AttentionInputs in;
  AttentionAttributes attributes;
  [[nodiscard]] define::Scratch<const Tensor*> inputs() const {
    define::Scratch<const Tensor*> all{&in.q, &in.k, &in.v};
    if (in.beta.defined()) all.push_back(&in.beta);
    if (in.stream.defined()) all.push_back(&in.stream);
    for (const Tensor& mask : in.masks) all.push_back(&mask);
    return all;
  }
};

// (..., T, H d) to (..., H, T, d), and back.
Tensor split_heads(const Tensor& x, int heads, const char* what) {
  if (x.rank() < 2 || heads < 1 || x.shape().back() % heads != 0)
    throw ShapeError("attention", cat(what, " has shape ", x.shape(), ", which does not split into ", heads, " heads"),
                     "the last axis must be a multiple of them");
  if (heads == 1) return x;
  Shape shape = x.shape();
  shape[shape.rank() - 1] /= heads;
  shape.insert(shape.rank() - 1, heads);
  return transpose(reshape(x, shape), -2, -3);
}
Tensor join_heads(const Tensor& x, int heads) {
  if (heads == 1) return x;
  const Tensor y = transpose(x, -2, -3);
  Shape shape = y.shape();
  const index_t size = shape.back() * heads;
  shape.erase(shape.rank() - 1);
  shape[shape.rank() - 1] = size;
  return reshape(y, shape);
}

Call call_of(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& spec) {
  const Number& beta = spec.map.inverse_temperature;
  AttentionAttributes a{.map = spec.map.kind,
                        .score = spec.score,
                        .hard = spec.map.hard,
                        .causal = spec.causal,
                        .tensor_temperature = beta.is_tensor(),
                        .dropped = spec.dropout != 0,
                        .inverse_temperature = beta.is_tensor() ? 1 : beta.value(),
                        .alpha = spec.map.alpha,
                        .dropout = spec.dropout,
                        .map_seed = spec.map.seed,
                        .dropout_seed = spec.dropout_seed};
  Call call{{split_heads(q, spec.heads, "q"), split_heads(k, spec.heads, "k"), split_heads(v, spec.heads, "v"), {}, {}, {}}, a};
  if (beta.is_tensor()) call.in.beta = beta.tensor();
  if (spec.key_mask.defined()) {
    if (spec.key_mask.dtype() != DType::boolean || spec.key_mask.rank() < 1)
      throw DTypeError("attention", cat("the key mask is ", name_of(spec.key_mask.dtype()), ' ', spec.key_mask.shape()),
                       "give bool (..., Tk), true keeps a key");
    const Tensor by_row = unsqueeze(spec.key_mask, -2);
    call.in.masks.push_back(spec.heads > 1 && by_row.rank() > 2 ? unsqueeze(by_row, -3) : by_row);
  }
  if (spec.mask.defined()) {
    if (spec.mask.rank() < 2) throw ShapeError("attention", cat("the mask has shape ", spec.mask.shape()), "give (..., Tq, Tk); for keys alone use key_mask");
    call.in.masks.push_back(spec.mask);
  }
  return call;
}

const OpDef& find_attention(MapKind map);
bool is_fused(MapKind map) { return map == MapKind::softmax || map == MapKind::normalized_linear; }

Tensor run(const OpDef& op, const Call& call) {
  const auto inputs = call.inputs();
  return apply(op, inputs, &call.attributes, sizeof call.attributes);
}

// Raises all errors, then gives dropout its stream: a call that fails records nothing.
void make_ready(const OpDef& op, Call& call, const Tensor& q) {
  if (call.attributes.dropped) call.in.stream = Tensor::zeros({}, DType::i64);
  const auto inputs = call.inputs();
  Run rule(op, inputs, &call.attributes, 0);
  check_attention(rule);
  if (call.attributes.dropped) call.in.stream = random_stream(q);
}

// ---- definitions -----------------------------------------------------------------------------------------------------------------

// q (2, 3, 4), k (2, 5, 4), v (2, 5, 3), and more.
std::vector<InputSpec> usual(std::initializer_list<InputSpec> more = {}) {
  std::vector<InputSpec> all{normal_input({2, 3, 4}), normal_input({2, 5, 4}), normal_input({2, 5, 3})};
  all.insert(all.end(), more);
  return all;
}
// The same with positive scores, whose sum stays away from 0.
std::vector<InputSpec> positive(std::initializer_list<InputSpec> more = {}) {
  std::vector<InputSpec> all{uniform_input({2, 3, 4}, 0.2, 1), uniform_input({2, 5, 4}, 0.2, 1), normal_input({2, 5, 3})};
  all.insert(all.end(), more);
  return all;
}

template <MapKind kind, Score score>
Tensor plain(Inputs x) {
  return attention(x[0], x[1], x[2], {.score = score, .map = {.kind = kind, .inverse_temperature = 0.7}});
}
template <MapKind kind, Score score>
Tensor masked(Inputs x) {
  return attention(x[0], x[1], x[2], {.score = score, .map = {.kind = kind, .inverse_temperature = x[5]}, .key_mask = x[3], .mask = x[4], .causal = true});
}
template <MapKind kind, Score score>
Tensor biased(Inputs x) {
  return attention(x[0], x[1], x[2], {.score = score, .map = {.kind = kind, .inverse_temperature = x[4]}, .mask = x[3]});
}
// Dropout on a stream that is given, so that every run drops the same.
template <MapKind kind, Score score>
Tensor dropping(Inputs x) {
  Call call = call_of(x[0], x[1], x[2], {.score = score, .map = {.kind = kind}, .causal = true, .dropout = 0.4, .dropout_seed = 3});
  call.in.stream = x[3];
  return run(find_attention(kind), call);
}

template <MapKind kind, Score score>
void add_cases(std::vector<OpCase>& all, const char* name, std::vector<InputSpec> (*inputs)(std::initializer_list<InputSpec>)) {
  all.push_back({name, inputs({}), plain<kind, score>});
  all.push_back({name, inputs({boolean_input({2, 5}), boolean_input({3, 5}), uniform_input({}, 0.5, 1.5)}), masked<kind, score>});
  // Of the sign of the scores, so that sums of normalised linear weights stay away from 0.
  const InputSpec bias = score == Score::euclidean ? uniform_input({2, 1, 5}, -1, -0.1) : uniform_input({2, 1, 5}, 0.1, 1);
  all.push_back({name, inputs({bias, uniform_input({}, 0.5, 1.5)}), biased<kind, score>});
  all.push_back({name, inputs({integer_values({}, {5})}), dropping<kind, score>});
}

std::vector<OpCase> fused_cases() {
  constexpr auto softmax_of = MapKind::softmax, linear_of = MapKind::normalized_linear;
  std::vector<OpCase> all;
  add_cases<softmax_of, Score::dot>(all, "softmax, dot", usual);
  add_cases<softmax_of, Score::scaled_dot>(all, "softmax, scaled dot", usual);
  add_cases<softmax_of, Score::euclidean>(all, "softmax, euclidean", usual);
  add_cases<linear_of, Score::dot>(all, "normalised linear, dot", positive);
  add_cases<linear_of, Score::euclidean>(all, "normalised linear, euclidean", positive);
  all.push_back({"several blocks", {normal_input({70, 1}), normal_input({131, 1}), normal_input({131, 1})}, [](Inputs x) {
                   return attention(x[0], x[1], x[2], {.causal = true});
                 }});
  all.push_back(
      {"batch broadcast", {normal_input({2, 1, 3, 2}), normal_input({3, 4, 2}), normal_input({4, 2})}, [](Inputs x) { return attention(x[0], x[1], x[2]); }});
  all.push_back({"heads", {normal_input({2, 3, 4}), normal_input({2, 4, 4}), normal_input({2, 4, 6}), boolean_input({2, 4})}, [](Inputs x) {
                   return attention(x[0], x[1], x[2], {.key_mask = x[3], .heads = 2});
                 }});
  all.push_back({"a query without keys",
                 {normal_input({2, 2}), normal_input({3, 2}), normal_input({3, 2}), value_input({2, 1}, {-infinity, 0})},
                 [](Inputs x) { return attention(x[0], x[1], x[2], {.mask = x[3].detached()}); },
                 true});
  all.push_back({"no queries", {normal_input({0, 2}), normal_input({3, 2}), normal_input({3, 2})}, plain<softmax_of, Score::dot>});
  all.push_back({"no keys", {normal_input({2, 2}), normal_input({0, 2}), normal_input({0, 3})}, plain<softmax_of, Score::dot>});
  all.push_back({"no batch", {normal_input({0, 2, 2}), normal_input({0, 3, 2}), normal_input({0, 3, 2})}, plain<softmax_of, Score::euclidean>});
  return all;
}

std::vector<OpCase> parts_cases() {
  std::vector<OpCase> all;
  add_cases<MapKind::sparsemax, Score::scaled_dot>(all, "sparsemax, scaled dot", usual);
  add_cases<MapKind::entmax, Score::euclidean>(all, "entmax, euclidean", usual);
  add_cases<MapKind::normmax, Score::dot>(all, "normmax, dot", usual);
  add_cases<MapKind::erf, Score::scaled_dot>(all, "erf, scaled dot", usual);
  add_cases<MapKind::identity, Score::euclidean>(all, "identity, euclidean", usual);
  add_cases<MapKind::hardmax, Score::dot>(all, "hardmax, dot", usual);
  all.push_back({"no keys", {normal_input({2, 2}), normal_input({0, 2}), normal_input({0, 3})}, plain<MapKind::sparsemax, Score::dot>});
  return all;
}

constexpr const char* shapes = "(..., Tq, D), (..., Tk, D), (..., Tk, Dv) -> (..., Tq, Dv)";
constexpr const char* law = "keys masked by a bool mask are not read; a query without keys: zeros, gradient 0; NaN in a score: its query's output is NaN";

const OpDef attention_op = {
    .name = "attention",
    .family = "attention",
    .formula = R"(y_i = \sum_j w_{ij} v_j,\ w_i = \mathrm{softmax}_j(\beta\, s(q_i, k_j)) \text{ or } s(q_i, k_j) / \sum_j s(q_i, k_j))",
    .shapes = shapes,
    .law = law,
    .shape = check_attention,
    .forward = [](Run& r) { define::attention_forward(inputs_of(r), r.attr<AttentionAttributes>(), r.out(0), r.out(1)); },
    .vjp = attention_vjp,
    .fused_vjp = attention_fused_vjp,
    .composite = composite,
    .saves = save::inputs | save::output,
    .cases = fused_cases,
};

const OpDef attention_by_parts_op = {
    .name = "attention_by_parts",
    .family = "attention",
    .formula = R"(y_i = \sum_j w_{ij} v_j,\ w_i = \mathrm{map}_j(\beta\, s(q_i, k_j)))",
    .shapes = shapes,
    .law = law,
    .gradient_note = "of hardmax and hard gumbel_softmax weights: that of the map",
    .shape = check_attention,
    .composite = composite,
    .cases = parts_cases,
};

const OpDef& find_attention(MapKind map) { return is_fused(map) ? attention_op : attention_by_parts_op; }

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& spec) {
  Call call = call_of(q, k, v, spec);
  const OpDef& op = find_attention(spec.map.kind);
  if (call.attributes.dropped) make_ready(op, call, q);
  return join_heads(run(op, call), spec.heads);
}

AttentionResult attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& spec) {
  Call call = call_of(q, k, v, spec);
  make_ready(attention_by_parts_op, call, q);
  const AttentionResult result = by_parts(call.in, call.attributes);
  return {join_heads(result.output, spec.heads), result.weights};
}

std::span<const OpDef* const> attention_ops() {
  static const OpDef* const all[] = {&attention_op, &attention_by_parts_op};
  return all;
}

}  // namespace gradus
