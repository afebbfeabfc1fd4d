// Attention, forward and backward, at batch 8 with 8 heads of 64.
#include "bench/work.hpp"
#include "engine/autograd/gradcheck.hpp"
#include "engine/ops/attention.hpp"

namespace gradus::bench {

std::vector<Work> attention_works() {
  std::vector<Work> works;
  for (const Score score : {Score::scaled_dot, Score::euclidean})
    for (const index_t T : {512, 1024}) {
      const Shape shape{8, 8, T, 64};
      works.push_back({cat("attention/", score == Score::euclidean ? "euclidean" : "dot", "/", T, "/forward_backward"),
                       [=] {
                         return forward_backward(
                             {random_normal(shape, DType::f32, 1), random_normal(shape, DType::f32, 2), random_normal(shape, DType::f32, 3)},
                             [score](std::span<const Tensor> t) { return attention(t[0], t[1], t[2], {.score = score}); });
                       },
                       12.0 * 64 * static_cast<double>(T * T) * 64});
    }
  return works;
}

}  // namespace gradus::bench
