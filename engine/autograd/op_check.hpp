#pragma once
// Every check of every op, driven by the definitions alone.

#include <string>
#include <vector>

#include "engine/autograd/op.hpp"

namespace gradus {

struct CheckResult {
  std::string op, check;
  bool passed = true;
  int cases = 0;       ///< how many cases it ran on
  std::string detail;  ///< of the first failure: case, numbers
};

/// Runs all checks of one op: gradients and second derivatives in f64 against finite differences, fused backward against the
/// composite one, the expanded forward against the fused, strided / sliced / reversed / broadcast inputs against contiguous
/// copies bit for bit (forward and backward), visible NaNs, thread counts 1, 2 and 4, instruction sets, f32 against f64, the declared dtypes, surrogates
/// against their oracles, and that there are cases at all, an empty one among them, and a gradient or a reason.
[[nodiscard]] std::vector<CheckResult> check_op(const OpDef& op);

/// The inputs of a case, filled from `seed`; floating ones have dtype `floating`.
[[nodiscard]] std::vector<Tensor> make_inputs(const OpCase& op_case, DType floating, std::uint64_t seed);

}  // namespace gradus
