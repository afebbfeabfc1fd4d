#pragma once
// Pieces of work by name, for comparison with peers: the same work stands in bench/peers under the same name.

#include <functional>
#include <string>
#include <vector>

#include "engine/autograd/tape.hpp"

namespace gradus::bench {

/// Does the work once.
using Step = std::function<void()>;

struct Work {
  std::string name;
  std::function<Step()> prepare;  ///< makes the data; the step that comes back owns it
  double flop = 0;                ///< floating-point operations of a step, where the limit is the fma rate
  bool f64 = false;               ///< which fma rate that is
};

/// All works, in the order of their table.
[[nodiscard]] std::vector<Work> all_works();

[[nodiscard]] std::vector<Work> gemm_works();
[[nodiscard]] std::vector<Work> op_works();
[[nodiscard]] std::vector<Work> attention_works();
[[nodiscard]] std::vector<Work> model_works();

/// y = f(inputs) and the gradients of all inputs for a fixed cotangent, on a tape that is cleared first.
[[nodiscard]] Step forward_backward(std::vector<Tensor> inputs, TensorFunction f);
/// y = f(inputs) off any tape.
[[nodiscard]] Step forward(std::vector<Tensor> inputs, TensorFunction f);

/// Answers requests on standard input, one a line, until it ends: "list"; "limits"; "NAME SECONDS", which runs the work for about
/// so long and prints the seconds of one step; "memory NAME", which prints by how many bytes one step raised the peak of the pool.
void serve();

}  // namespace gradus::bench
