// Single ops at the sizes of the comparison table.
#include "bench/work.hpp"

#include <memory>

#include "engine/autograd/gradcheck.hpp"
#include "engine/ops/activation.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/norms.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/tensor/view.hpp"

namespace gradus::bench {

namespace {

using Inputs = std::span<const Tensor>;

Tensor numbers(const Shape& shape, std::uint64_t seed = 1) { return random_normal(shape, DType::f32, seed); }

Tensor classes(index_t rows, index_t below) { return cast(random_uniform({rows}, DType::f32, 0, static_cast<double>(below), 5), DType::i64); }

Work both_ways(const char* name, std::function<std::vector<Tensor>()> inputs, TensorFunction f) {
  return {cat(name, "/forward_backward"), [=] { return forward_backward(inputs(), f); }};
}
Work one_way(const char* name, std::function<std::vector<Tensor>()> inputs, TensorFunction f) {
  return {cat(name, "/forward"), [=] { return forward(inputs(), f); }};
}

// A chain of a thousand additions to 16 numbers: what an op costs when the work is nothing.
Work tiny() {
  return {"tiny_add/forward_backward", [] {
            const Tensor x = numbers({16}), one = numbers({16}, 2), ones = Tensor::ones({16});
            return [tape = std::make_shared<Tape>(), x, one, ones] {
              tape->clear();
              const Tensor start = tape->variable(x);
              Tensor y = start;
              for (int i = 0; i < 1000; ++i) y = y + one;
              (void)tape->backward(y, {.cotangent = ones});
            };
          }};
}

}  // namespace

std::vector<Work> op_works() {
  const auto rows = [] { return std::vector<Tensor>{numbers({4096, 512})}; };
  const auto million = [] { return std::vector<Tensor>{numbers({1 << 20})}; };
  const auto square = [] { return std::vector<Tensor>{numbers({4096, 4096})}; };
  return {
      both_ways("softmax/4096x512", rows, [](Inputs t) { return softmax(t[0]); }),
      both_ways(
          "cross_entropy/4096x512",
          [] {
            return std::vector<Tensor>{numbers({4096, 512}), classes(4096, 512)};
          },
          [](Inputs t) { return cross_entropy(t[0], t[1]); }),
      both_ways(
          "layer_norm/4096x768",
          [] {
            return std::vector<Tensor>{numbers({4096, 768}), numbers({768}, 2), numbers({768}, 3)};
          },
          [](Inputs t) { return layer_norm(t[0], {.weight = t[1], .bias = t[2]}); }),
      both_ways(
          "rms_norm/4096x768",
          [] {
            return std::vector<Tensor>{numbers({4096, 768}), numbers({768}, 2)};
          },
          [](Inputs t) { return rms_norm(t[0], {.weight = t[1]}); }),
      one_way("tanh/1M", million, [](Inputs t) { return tanh(t[0]); }),
      one_way("gelu/1M", million, [](Inputs t) { return gelu(t[0]); }),
      one_way("exp/1M", million, [](Inputs t) { return exp(t[0]); }),
      {"conv2d/64x32x32x32-64/forward_backward",
       [] {
         return forward_backward({numbers({64, 32, 32, 32}), numbers({64, 32, 3, 3}, 2), numbers({64}, 3)},
                                 [](Inputs t) { return conv2d(t[0], t[1], {.padding = 1, .bias = t[2]}); });
       },
       3 * 2.0 * 64 * 32 * 32 * 64 * 32 * 9},
      one_way("sum/4096x4096/0", square, [](Inputs t) { return sum(t[0], {.axes = {0}}); }),
      one_way("sum/4096x4096/1", square, [](Inputs t) { return sum(t[0], {.axes = {1}}); }),
      one_way("max/4096x4096/0", square, [](Inputs t) { return max(t[0], {.axes = {0}}); }),
      one_way("max/4096x4096/1", square, [](Inputs t) { return max(t[0], {.axes = {1}}); }),
      one_way(
          "transpose/2048x2048",
          [] {
            return std::vector<Tensor>{numbers({2048, 2048})};
          },
          [](Inputs t) { return copy(transpose(t[0])); }),
      both_ways(
          "embedding/30000x256-64x128",
          [] {
            return std::vector<Tensor>{numbers({30000, 256}), cast(random_uniform({64, 128}, DType::f32, 0, 30000, 5), DType::i64)};
          },
          [](Inputs t) { return embedding(t[0], t[1]); }),
      tiny(),
  };
}

}  // namespace gradus::bench
