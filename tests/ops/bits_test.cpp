// Ops on packed signs where the cases of their definitions are too small.
#include "engine/ops/bits.hpp"
#include "engine/autograd/gradcheck.hpp"
#include "engine/core/random.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"
#include "tests/reference.hpp"

using namespace gradus;
using namespace gradus::testing;

TEST_CASE("parity_loss_of_several_blocks_of_rows_equals_its_parts", "[bits]") {
  constexpr index_t rows = 9000, signs = 20;
  std::vector<std::int64_t> words(rows);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::int64_t>(Random(3, 1).uniform(i) * (1 << signs));
  const Tensor bits = Tensor::from(words, {rows, 1}), weights = random_normal({2, signs}, DType::f64, 3, 2), targets = random_normal({rows}, DType::f64, 3, 3);
  Tensor losses[2], slopes[2];
  for (const bool expand : {false, true}) {
    Tape tape({.expand = expand});
    const Tensor w = tape.variable(weights), loss = parity_loss(bits, w, targets);
    losses[expand] = loss.detached();
    slopes[expand] = tape.backward(loss).of(w).detached();
  }
  CHECK(deviation(losses[0], losses[1]) < 1e-13);
  CHECK(deviation(slopes[0], slopes[1]) < 1e-13);
}
