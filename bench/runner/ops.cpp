// Single ops: forward alone ("exp"), or forward and backward on a tape that is cleared each time.
#include "bench/runner/step.hpp"
#include "bench/runner/work.hpp"
#include "engine/ops/activation.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/linear.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/norms.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus::bench {
namespace {

Tensor numbers(const Shape& shape, std::uint64_t seed = 1) { return random_normal(shape, DType::f32, seed); }

template <Tensor (*f)(const Tensor&)>
Work unary(const Words& w) {
  const Tensor x = numbers({w.number(0)});
  return [x] { keep(f(x)); };
}
template <Tensor (*f)(const Tensor&)>
Work unary_both_ways(const Words& w) {
  return both_ways({numbers({w.number(0)})}, [](auto x) { return f(x[0]); });
}

Work softmax_work(const Words& w) {
  return both_ways({numbers({w.number(0), w.number(1)})}, [](auto x) { return softmax(x[0]); });
}
Work cross_entropy_work(const Words& w) {
  const Tensor target = labels({w.number(0)}, w.number(1));
  return both_ways({numbers({w.number(0), w.number(1)})}, [target](auto x) { return cross_entropy(x[0], target); });
}
Work layer_norm_work(const Words& w) {
  return both_ways({numbers({w.number(0), w.number(1)}), numbers({w.number(1)}, 2), numbers({w.number(1)}, 3)},
                   [](auto x) { return layer_norm(x[0], {.weight = x[1], .bias = x[2]}); });
}
Work rms_norm_work(const Words& w) {
  return both_ways({numbers({w.number(0), w.number(1)}), numbers({w.number(1)}, 2)}, [](auto x) { return rms_norm(x[0], {.weight = x[1]}); });
}
Work linear_gelu_work(const Words& w) {
  return both_ways({numbers({w.number(0), w.number(1)}), numbers({w.number(2), w.number(1)}, 2) * 0.02, numbers({w.number(2)}, 3)},
                   [](auto x) { return gelu(linear(x[0], x[1], {.bias = x[2]})); });
}
Work conv2d_work(const Words& w) {
  const index_t b = w.number(0), c = w.number(1), o = w.number(2), size = w.number(3);
  return both_ways({numbers({b, c, size, size}), numbers({o, c, 3, 3}, 2), numbers({o}, 3)},
                   [](auto x) { return conv2d(x[0], x[1], {.padding = 1, .bias = x[2]}); });
}
Work sum_work(const Words& w) {
  const Tensor x = numbers({w.number(0), w.number(1)});
  return [x, axis = w.number(2)] { keep(sum(x, {.axes = {axis}})); };
}
Work max_work(const Words& w) {
  const Tensor x = numbers({w.number(0), w.number(1)});
  return [x, axis = w.number(2)] { keep(max(x, {.axes = {axis}})); };
}
Work transpose_work(const Words& w) {
  const Tensor x = numbers({w.number(0), w.number(0)});
  return [x] { keep(contiguous(transpose(x))); };
}
// A chain of additions of 16 numbers on a tape; the time is that of all of them.
Work tiny_work(const Words& w) {
  const Tensor one = numbers({16}, 2);
  return both_ways({numbers({16})}, [one, count = w.number(0)](auto x) {
    Tensor y = x[0];
    for (index_t i = 0; i < count; ++i) y = y + one;
    return y;
  });
}

}  // namespace

std::vector<Kind> op_kinds() {
  return {{"exp", "N", unary<exp>},
          {"tanh", "N", unary<tanh>},
          {"gelu", "N", unary<gelu>},
          {"exp_both", "N", unary_both_ways<exp>},
          {"tanh_both", "N", unary_both_ways<tanh>},
          {"gelu_both", "N", unary_both_ways<gelu>},
          {"softmax", "ROWS N", softmax_work},
          {"cross_entropy", "ROWS CLASSES", cross_entropy_work},
          {"layer_norm", "ROWS N", layer_norm_work},
          {"rms_norm", "ROWS N", rms_norm_work},
          {"linear_gelu", "ROWS IN OUT", linear_gelu_work},
          {"conv2d", "BATCH IN OUT SIZE", conv2d_work},
          {"sum", "ROWS COLUMNS AXIS", sum_work},
          {"max", "ROWS COLUMNS AXIS", max_work},
          {"transpose", "N", transpose_work},
          {"tiny", "COUNT", tiny_work}};
}

}  // namespace gradus::bench
