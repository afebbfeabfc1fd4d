#include "engine/ops/attention.hpp"

#include "engine/ops/attention_blocks.hpp"
#include "engine/ops/attention_parts.hpp"
#include "engine/ops/define.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/random_stream.hpp"

namespace gradus {
namespace {

using define::AttentionAttributes;
using define::AttentionInputs;
using define::Inputs;
using define::inputs_of;
using define::with_matrix;

constexpr double infinity = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();

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
template <MapKind kind, Score score, bool causal = true>
Tensor dropping(Inputs x) {
  Call call = call_of(x[0], x[1], x[2], {.score = score, .map = {.kind = kind}, .causal = causal, .dropout = 0.4, .dropout_seed = 3});
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
  all.push_back({name, inputs({integer_values({}, {500})}), dropping<kind, score>});
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
  all.push_back({"a batch of values and masks alone",
                 {normal_input({3, 2}), normal_input({4, 2}), normal_input({2, 4, 2}), normal_input({2, 1, 4})},
                 [](Inputs x) { return attention(x[0], x[1], x[2], {.mask = x[3]}); }});
  all.push_back({"normalised linear, -inf added", positive({boolean_input({2, 1, 5})}), [](Inputs x) {
                   const Tensor shift = where(x[3], scalar_like(x[0], 0), -infinity);
                   return attention(x[0], x[1], x[2], {.map = {.kind = linear_of}, .mask = shift});
                 }});
  // What has no weight or is dropped is not looked at, be it NaN or so large that products with it overflow.
  const double huge = 1.5e308;
  const InputSpec values = value_input({4, 2}, {1, 2, huge, huge, -1, 0.5, 3, 1});
  all.push_back({"a huge value of no weight",
                 {normal_input({3, 2}), normal_input({4, 2}), values},
                 [](Inputs x) {
                   const Tensor shift = where(equal_to(reshape(Tensor::arange(4), {1, 4}), 1.0), -infinity, scalar_like(x[0], 0));
                   return attention(x[0], x[1], x[2], {.mask = shift});
                 },
                 true});
  // The second key is dropped: the stream was chosen so.
  const InputSpec wide = value_input({3, 6}, {1, 2, 3, 4, 5, 6, huge, huge, huge, huge, huge, huge, -1, 0.5, 3, 1, 2, 1});
  const auto one_query = [&](double low) {
    return std::vector<InputSpec>{uniform_input({1, 2}, low, 1), uniform_input({3, 2}, low, 1), wide, integer_values({}, {511})};
  };
  all.push_back({"dropout of a huge value", one_query(-1), dropping<softmax_of, Score::dot, false>, true});
  all.push_back({"normalised linear, dropout of a huge value", one_query(0.1), dropping<linear_of, Score::dot, false>, true});
  all.push_back({"dropout of a row of NaN",
                 {value_input({4, 2}, {1, 0, 2, -1, 0.5, -1, not_a_number, 1}), normal_input({4, 2}), normal_input({4, 2}), integer_values({}, {500})},
                 dropping<softmax_of, Score::dot>,
                 true});
  all.push_back({"a key infinitely far",
                 {normal_input({2, 2}), value_input({3, 2}, {0.5, 1, infinity, 0, -1, 2}), normal_input({3, 2}), uniform_input({}, 0.5, 1.5)},
                 [](Inputs x) { return attention(x[0], x[1], x[2], {.score = Score::euclidean, .map = {.inverse_temperature = x[3]}}); },
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
    .vjp = define::attention_vjp,
    .fused_vjp = define::attention_fused_vjp,
    .composite = [](Run& r) { return define::attention_by_parts(inputs_of(r), r.attr<AttentionAttributes>()).output; },
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
    .composite = [](Run& r) { return define::attention_by_parts(inputs_of(r), r.attr<AttentionAttributes>()).output; },
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
  const AttentionResult result = define::attention_by_parts(call.in, call.attributes);
  return {join_heads(result.output, spec.heads), result.weights};
}

std::span<const OpDef* const> attention_ops() {
  static const OpDef* const all[] = {&attention_op, &attention_by_parts_op};
  return all;
}

}  // namespace gradus
