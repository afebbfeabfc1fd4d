// One iteration of Lloyd's algorithm: labels, and centres as means, in one pass over the points.
#include "bench/runner/step.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "models/kmeans/lloyd.hpp"

namespace gradus::bench {

std::vector<Kind> kmeans_kinds() {
  return {{"lloyd", "N D K", [](const Words& w) -> Work {
             const Tensor x = random_normal({w.number(0), w.number(1)}, DType::f32, 1);
             const auto centres = std::make_shared<Tensor>(kmeans::initial_centres(x, w.number(2), kmeans::Start::random, Random(1)));
             return [x, centres] {
               const kmeans::Assignment assignment = kmeans::assign(x, *centres);
               *centres = assignment.sums / maximum(unsqueeze(assignment.weights, -1), 1.0);
             };
           }}};
}

}  // namespace gradus::bench
