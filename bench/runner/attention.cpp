// Attention of 8 x 8 heads of 64, forward alone or both ways.
#include "engine/ops/attention.hpp"
#include "bench/runner/step.hpp"

namespace gradus::bench {
namespace {

AttentionSpec spec_of(const Words& w) { return {.score = w.text(0) == "euclidean" ? Score::euclidean : Score::scaled_dot}; }
std::vector<Tensor> inputs_of(const Words& w) {
  const Shape shape{8, 8, w.number(1), 64};
  return {random_normal(shape, DType::f32, 1), random_normal(shape, DType::f32, 2), random_normal(shape, DType::f32, 3)};
}

}  // namespace

std::vector<Kind> attention_kinds() {
  return {{"attention_forward", "dot|euclidean T",
           [](const Words& w) -> Work { return [x = inputs_of(w), spec = spec_of(w)] { keep(attention(x[0], x[1], x[2], spec)); }; }},
          {"attention", "dot|euclidean T",
           [](const Words& w) { return both_ways(inputs_of(w), [spec = spec_of(w)](auto x) { return attention(x[0], x[1], x[2], spec); }); }}};
}

}  // namespace gradus::bench
