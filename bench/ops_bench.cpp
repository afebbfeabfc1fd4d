// Every op of the registry on its first ordinary case, in f32: forward, and forward with backward. The cases are small: what is timed
// is mostly what an op costs beside its arithmetic. Run with --benchmark_filter=ops/NAME.
#include <benchmark/benchmark.h>

#include <algorithm>

#include "engine/autograd/op_check.hpp"
#include "engine/autograd/tape.hpp"
#include "engine/ops/registry.hpp"

using namespace gradus;

namespace {

void forward(benchmark::State& state, const OpCase& op_case) {
  const std::vector<Tensor> inputs = make_inputs(op_case, DType::f32, 1);
  for (auto _ : state) benchmark::DoNotOptimize(op_case.call(inputs).buffer());
}

void both_ways(benchmark::State& state, const OpCase& op_case) {
  const std::vector<Tensor> inputs = make_inputs(op_case, DType::f32, 1);
  const Tensor value = op_case.call(inputs), cotangent = Tensor::ones(value.shape(), value.dtype());
  Tape tape;
  std::vector<Tensor> variables;
  for (auto _ : state) {
    tape.clear();
    variables.clear();
    for (const Tensor& x : inputs) variables.push_back(is_floating(x.dtype()) ? tape.variable(x) : x);
    const Tensor y = op_case.call(variables);
    benchmark::DoNotOptimize(tape.backward(y, {.cotangent = cotangent}).steps_visited());
  }
}

// Before main, as the macros do.
const bool registered = [] {
  for (const OpDef* op : all_ops()) {
    const auto cases = op->cases();
    const auto usual = std::find_if(cases.begin(), cases.end(), [](const OpCase& c) { return !c.at_kink; });
    if (usual == cases.end() || std::string_view(op->dtypes).find("f32") == std::string_view::npos) continue;
    const std::string name = std::string("ops/") + op->name;
    benchmark::RegisterBenchmark((name + "/forward").c_str(), [c = *usual](benchmark::State& state) { forward(state, c); });
    if (op->gradient != GradientKind::zero)
      benchmark::RegisterBenchmark((name + "/forward_backward").c_str(), [c = *usual](benchmark::State& state) { both_ways(state, c); });
  }
  return true;
}();

}  // namespace
