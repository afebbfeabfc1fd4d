// One iteration of Lloyd's algorithm.
#include "bench/runner/step.hpp"
#include "models/kmeans/lloyd.hpp"

namespace gradus::bench {

std::vector<Kind> kmeans_kinds() {
  return {{"lloyd", "N D K", [](const Words& w) -> Work {
             const Tensor x = random_normal({w.number(0), w.number(1)}, DType::f32, 1);
             const auto centres = std::make_shared<Tensor>(kmeans::initial_centres(x, w.number(2), kmeans::Start::random, Random(1)));
             return [x, centres] { *centres = kmeans::lloyd_step(x, *centres, Random(2), 0).centres; };
           }}};
}

}  // namespace gradus::bench
