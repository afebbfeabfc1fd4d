// Gradient checkpointing: the same numbers, with less kept.
#include "engine/autograd/checkpoint.hpp"

#include "engine/autograd/gradcheck.hpp"
#include "engine/core/memory.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"

using namespace gradus;

namespace {

using Inputs = std::span<const Tensor>;

Tensor block(Inputs x) { return tanh(matmul(sin(matmul(x[0], x[1])), x[1])); }

Tensor checkpointed(Inputs x) { return checkpoint(block, x); }

std::vector<Tensor> block_inputs() { return {random_normal({4, 3}, DType::f64, 1), random_normal({3, 3}, DType::f64, 2)}; }

}  // namespace

TEST_CASE("a checkpoint gives the same value and gradients bit for bit, as one step") {
  const auto values = block_inputs();
  const auto run = [&](const TensorFunction& f) {
    Tape tape;
    const Tensor x = tape.variable(values[0]), w = tape.variable(values[1]);
    const std::vector<Tensor> both{x, w};
    const Tensor y = f(both);
    const std::int32_t steps = tape.steps();
    const Gradients g = tape.backward(sum(square(y)));
    return std::tuple(y.detached(), g.of(x), g.of(w), steps);
  };
  const auto [y0, x0, w0, steps0] = run(block);
  const auto [y1, x1, w1, steps1] = run(checkpointed);
  CHECK(bit_equal(y0, y1));
  CHECK(bit_equal(x0, x1));
  CHECK(bit_equal(w0, w1));
  CHECK(steps0 == 4);
  CHECK(steps1 == 1);
}

TEST_CASE("first and second derivatives through a checkpoint agree with differences") {
  CHECK(gradcheck(checkpointed, block_inputs()).passed);
  CHECK(gradcheck_second(checkpointed, block_inputs()).passed);
}

TEST_CASE("checkpoints nest") {
  const auto nested = [](Inputs x) { return checkpoint([](Inputs in) { return exp(checkpoint(block, in)); }, x); };
  CHECK(gradcheck(nested, block_inputs()).passed);
  CHECK(gradcheck_second(nested, block_inputs()).passed);
}

TEST_CASE("a deep chain of checkpoints needs less memory at its peak") {
  const Tensor x = random_normal({256, 64}, DType::f64, 1);
  const auto segment = [](Inputs in) {
    Tensor h = in[0];
    for (int i = 0; i < 8; ++i) h = sin(h);
    return h;
  };
  const auto peak = [&](bool check) {
    Tape tape;
    MemoryPool::instance().reset_peak();
    const std::int64_t before = MemoryPool::instance().stats().live_bytes;
    Tensor h = tape.variable(x);
    for (int i = 0; i < 8; ++i) {
      const std::vector<Tensor> in{h};
      h = check ? checkpoint(segment, in) : segment(in);
    }
    (void)tape.backward(sum(h));
    return MemoryPool::instance().stats().peak_bytes - before;
  };
  CHECK(peak(true) < peak(false) / 2);
}

TEST_CASE("a replay runs the checkpoint on the new values") {
  Tape tape;
  const Tensor x = tape.variable(Tensor::of({1, 2}, DType::f64));
  const std::vector<Tensor> in{x};
  const Tensor y = sum(checkpoint([](Inputs v) { return square(v[0]); }, in));
  CHECK(y.item() == 5);
  tape.set(x, Tensor::of({3, 4}, DType::f64));
  tape.replay();
  CHECK(equal(tape.backward(y).of(x), Tensor::of({6, 8}, DType::f64)));
}

TEST_CASE("a captured tensor of the outer tape is a clear error") {
  Tape tape;
  const Tensor x = tape.variable(Tensor::ones({2}, DType::f64)), w = tape.variable(Tensor::ones({2}, DType::f64));
  const std::vector<Tensor> in{x};
  CHECK_THROWS_AS(checkpoint([&](Inputs v) { return v[0] * w; }, in), GraphError);
}

TEST_CASE("off a tape a checkpoint is the function itself") {
  const auto values = block_inputs();
  CHECK(bit_equal(checkpointed(values), block(values)));
}
