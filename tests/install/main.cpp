// d/dx sum(x * x) = 2 x, through the installed library.

#include <iostream>

#include "engine/autograd/tape.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/reduce.hpp"

int main() {
  using namespace gradus;
  Tape tape;
  const Tensor x = tape.variable(Tensor::of({1.0, 2.0, 3.0}), "x");
  const Tensor y = sum(x * x);
  std::cout << tape.backward(y).of(x) << '\n';
}
