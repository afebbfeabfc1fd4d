// Running layers of the transformer over a data set.
#include <cmath>
#include <optional>

#include "engine/ops/distance.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/reduce.hpp"
#include "models/kmeans/transformer.hpp"

namespace gradus::kmeans {
namespace {

// What one layer did.
struct LayerOutcome {
  Tensor centres;
  Tensor labels;  // argmax of the assignment slots, when asked for
  index_t tied_points = 0, empty_clusters = 0;
};

index_t count_true(const Tensor& condition) {
  index_t count = 0;
  for (const bool hit : condition.to_vector<bool>()) count += hit;
  return count;
}

// Under the limiting map a point whose largest weight is below 1 was split between tied centres.
index_t count_split(const Tensor& assignment, const TransformerOptions& options) {
  return std::isinf(options.inverse_temperature) ? count_true(less(max(assignment, {.axes = {1}}), Tensor::scalar(0.75, assignment.dtype()))) : 0;
}

// ---- all tokens at once ------------------------------------------------------------------------------------------------

class TokenStream {
 public:
  TokenStream(const Tensor& points, const Tensor& start, const TransformerOptions& options) : options_(options), d_(points.shape()[1]), k_(start.shape()[0]) {
    weights_ = theorem_weights(options.construction, d_, k_, points.dtype());
    tokens_ = embed(points, start, options.construction);
  }

  LayerOutcome step(bool with_labels) {
    tokens_ = layer(tokens_, weights_, options_);
    const Tensor assignment = slice(tokens_.data, 1, {d_, d_ + k_});
    LayerOutcome outcome;
    outcome.centres = copy(slice(tokens_.centres, 1, {0, d_}));
    outcome.tied_points = count_split(assignment, options_);
    outcome.empty_clusters = count_true(equal_to(sum(assignment, {.axes = {0}}), 0.0));
    if (with_labels) outcome.labels = argmax(assignment, 1);
    return outcome;
  }

 private:
  TransformerOptions options_;
  index_t d_, k_;
  LayerWeights weights_;
  Tokens tokens_;
};

// ---- in blocks of points -----------------------------------------------------------------------------------------------
// With identity self-attention and the linear update a layer needs of the data tokens only sum_i y_ij and sum_i y_ij x_i: the
// points go by in blocks of fixed length, whose sums are added in order.

constexpr index_t block_rows = 8192;

Tensor block_assignment(const Tensor& block, const Tensor& centres, const TransformerOptions& options) {
  Tensor scores;
  if (options.construction == Construction::euclidean) scores = neg(squared_distance(block, centres));
  else scores = matmul(block, transpose(centres)) - 0.5 * sum(square(centres), {.axes = {1}});
  return std::isinf(options.inverse_temperature) ? hardmax(scores) : softmax(scores, {.inverse_temperature = options.inverse_temperature});
}

// The normalised linear update from the sums of a layer; a centre without weight stays.
LayerOutcome update(const Tensor& centres, const Tensor& weights, const Tensor& sums) {
  const Tensor total = unsqueeze(weights, -1), starved = equal_to(total, 0.0);
  LayerOutcome outcome;
  outcome.centres = where(starved, centres, sums / where(starved, 1.0, total));
  outcome.empty_clusters = count_true(starved);
  return outcome;
}

LayerOutcome block_step(const Tensor& points, const Tensor& centres, const TransformerOptions& options, bool with_labels) {
  const index_t n = points.shape()[0];
  Tensor weights = zeros({centres.shape()[0]}, points.dtype()), sums = zeros(centres.shape(), points.dtype());
  Tensor labels = with_labels ? Tensor::empty({n}, DType::i64) : Tensor();
  index_t tied = 0;
  for (index_t begin = 0; begin < n; begin += block_rows) {
    const index_t end = std::min(n, begin + block_rows);
    const Tensor block = slice(points, 0, {begin, end});
    const Tensor assignment = block_assignment(block, centres, options);
    weights = weights + sum(assignment, {.axes = {0}});
    sums = sums + matmul(transpose(assignment), block);
    tied += count_split(assignment, options);
    if (!with_labels) continue;
    Tensor place = view::slice(labels, 0, {begin, end});
    copy_into(place, argmax(assignment, 1));
  }
  LayerOutcome outcome = update(centres, weights, sums);
  outcome.labels = labels;
  outcome.tied_points = tied;
  return outcome;
}

// The limiting map on distances has a kernel of its own that does the whole pass.
LayerOutcome fused_step(const Tensor& centres, const Assignment& pass) {
  LayerOutcome outcome = update(centres, pass.weights, pass.sums);
  outcome.labels = pass.labels;
  outcome.tied_points = pass.tied_points;
  return outcome;
}

index_t count_moved(const Tensor& before, const Tensor& after) { return count_true(greater(max(abs(after - before), {.axes = {1}}), 0.0)); }

void require_run(const Tensor& points, const Tensor& start, index_t layers, const TransformerOptions& options) {
  check_problem(points, start.rank() == 2 ? start.shape()[0] : 0);
  if (start.shape()[1] != points.shape()[1] || start.dtype() != points.dtype())
    throw ShapeError("kmeans", cat("points ", points.shape(), " ", name_of(points.dtype()), ", centres ", start.shape(), " ", name_of(start.dtype())),
                     "same dimensions and dtype");
  if (layers < 0) throw ValueError("kmeans", cat(layers, " layers"), "give 0 or more");
  if (!(options.inverse_temperature > 0))
    throw ValueError("kmeans", cat("the inverse temperature is ", options.inverse_temperature), "it must be > 0; inf is the limiting map");
}

}  // namespace

Trace run_transformer(const Tensor& points, const Tensor& start, index_t layers, const TransformerOptions& options, bool keep_labels,
                      const std::function<void(index_t)>& progress) {
  require_run(points, start, layers, options);
  const bool dot = options.construction == Construction::dot_product;
  const bool in_blocks = options.self_attention == SelfAttention::identity && options.centre_update == CentreUpdate::linear;
  const bool fused = in_blocks && !dot && std::isinf(options.inverse_temperature);
  const Tensor shift = dot ? mean(points, {.axes = {0}}) : zeros({points.shape()[1]}, points.dtype());
  const Tensor centred = dot ? points - shift : points;
  Tensor moving = dot ? start - shift : start;
  std::optional<TokenStream> stream;
  if (!in_blocks) stream.emplace(centred, moving, options);

  Trace trace;
  Assignment pass = assign(points, start, keep_labels || layers == 0);
  const auto note = [&](const Tensor& centres) {
    trace.centres.push_back(centres);
    trace.objective.push_back(pass.objective);
  };
  note(start);
  for (index_t t = 0; t < layers; ++t) {
    const LayerOutcome outcome = fused ? fused_step(moving, pass) : in_blocks ? block_step(centred, moving, options, keep_labels) : stream->step(keep_labels);
    trace.moved_centres.push_back(count_moved(moving, outcome.centres));
    trace.empty_clusters.push_back(outcome.empty_clusters);
    trace.tied_points.push_back(outcome.tied_points);
    if (keep_labels) trace.labels.push_back(outcome.labels);
    moving = outcome.centres;
    const Tensor centres = dot ? moving + shift : moving;
    pass = assign(points, centres, keep_labels || t + 1 == layers);
    note(centres);
    if (progress) progress(t + 1);
  }
  trace.tied_points.push_back(pass.tied_points);
  trace.labels.push_back(pass.labels);
  return trace;
}

}  // namespace gradus::kmeans
