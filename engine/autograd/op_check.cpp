#include "engine/autograd/op_check.hpp"

#include <cmath>
#include <functional>
#include <limits>

#include "engine/autograd/gradcheck.hpp"
#include "engine/core/parallel.hpp"
#include "engine/core/random.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/tensor/compute.hpp"
#include "engine/tensor/view.hpp"

namespace gradus {
namespace {

using Tensors = std::vector<Tensor>;
constexpr std::uint64_t seed = 20260101;

// Output and gradients of one run of a case, with a random cotangent; no gradients where none flow.
struct Outcome {
  Tensor output;
  Tensors gradients;
};

using Rearrange = Tensor (*)(const Tensor&);

Outcome run(const OpCase& op_case, std::span<const Tensor> inputs, const TapeOptions& options = {}, bool record = false, Rearrange rearrange = nullptr) {
  Tape tape(options);
  Tensors on_tape;
  for (const Tensor& x : inputs) on_tape.push_back(is_floating(x.dtype()) ? tape.variable(x) : tape.input(x));
  Outcome result;
  const Tensor y = op_case.call(on_tape);
  result.output = y.detached();
  if (!y.on_tape() || !is_floating(y.dtype())) return result;
  try {
    const Tensor cotangent = random_normal(y.shape(), y.dtype(), seed, 99);
    const Gradients gradients = tape.backward(y, {.record = record, .cotangent = rearrange != nullptr ? rearrange(cotangent) : cotangent});
    for (const Tensor& x : on_tape)
      if (is_floating(x.dtype())) result.gradients.push_back(gradients.of(x).detached());
  } catch (const GraphError&) {  // a zero gradient stops at the op
  }
  return result;
}

std::string differing_bits(const Outcome& a, const Outcome& b) {
  if (!bit_equal(a.output, b.output)) return "outputs differ";
  if (a.gradients.size() != b.gradients.size()) return "one has gradients, the other none";
  for (std::size_t i = 0; i < a.gradients.size(); ++i)
    if (!bit_equal(a.gradients[i], b.gradients[i])) return cat("gradients of floating input ", i, " differ");
  return "";
}

std::string far_apart(const Tensor& a, const Tensor& b, double tolerance, const char* what) {
  if (a.shape() != b.shape()) return cat(what, " shapes ", a.shape(), " and ", b.shape());
  const Tensor x = contiguous(a), y = contiguous(b);
  for (index_t i = 0; i < x.numel(); ++i) {
    const auto read = [i](const Tensor& t) { return visit_dtype(t.dtype(), [&](auto tag) { return static_cast<double>(t.data<decltype(tag)>()[i]); }); };
    const double p = read(x), q = read(y);
    if (p == q || (std::isnan(p) && std::isnan(q))) continue;
    if (!(std::fabs(p - q) <= tolerance * std::max(1.0, std::fabs(q)))) return cat(what, " differ at element ", i, ": ", p, " and ", q);
  }
  return "";
}

std::string far_apart(const Outcome& a, const Outcome& b, double tolerance) {
  if (auto problem = far_apart(a.output, b.output, tolerance, "outputs"); !problem.empty()) return problem;
  if (a.gradients.size() != b.gradients.size()) return "one has gradients, the other none";
  for (std::size_t i = 0; i < a.gradients.size(); ++i)
    if (auto problem = far_apart(a.gradients[i], b.gradients[i], tolerance, "gradients"); !problem.empty()) return problem;
  return "";
}

// ---- the same numbers in other layouts -------------------------------------------------------------------------------

Tensor reversed_axes(const Tensor& t) {
  Dims axes;
  for (int i = t.rank() - 1; i >= 0; --i) axes.push_back(i);
  return view::permute(t, axes);
}
Tensor transposed_storage(const Tensor& t) { return reversed_axes(copy(reversed_axes(t))); }

// Every second element of a wider buffer whose gaps hold ones (or junk that would show).
Tensor every_second(const Tensor& t) {
  if (t.rank() == 0) return t;
  Shape wide = t.shape();
  wide[t.rank() - 1] = 2 * wide.back() + 1;
  Tensor room = Tensor::full(wide, 1, t.dtype());
  Tensor place = view::slice(room, -1, {1, Slice::none, 2});
  copy_into(place, t);
  return place;
}
Tensor with_offset(const Tensor& t) {
  if (t.rank() == 0) return t;
  Shape longer = t.shape();
  longer[0] += 1;
  Tensor room = Tensor::full(longer, 1, t.dtype());
  Tensor place = view::slice(room, 0, {1});
  copy_into(place, t);
  return place;
}
Tensor backwards(const Tensor& t) {
  if (t.rank() == 0) return t;
  const Slice reverse{Slice::none, Slice::none, -1};
  return view::slice(copy(view::slice(t, -1, reverse)), -1, reverse);
}

std::string layout_problem(const OpCase& op_case, const Tensors& inputs) {
  const Outcome expected = run(op_case, inputs), expected_recorded = run(op_case, inputs, {}, true);
  for (const auto& [name, rearrange] : std::initializer_list<std::pair<const char*, Rearrange>>{
           {"transposed", transposed_storage}, {"every second", every_second}, {"offset", with_offset}, {"backwards", backwards}}) {
    Tensors moved;
    for (const Tensor& x : inputs) moved.push_back(rearrange(x));
    if (auto problem = differing_bits(run(op_case, moved), expected); !problem.empty()) return cat(name, ": ", problem);
    if (auto problem = differing_bits(run(op_case, inputs, {}, false, rearrange), expected); !problem.empty()) return cat("cotangent ", name, ": ", problem);
    if (auto problem = differing_bits(run(op_case, inputs, {}, true, rearrange), expected_recorded); !problem.empty())
      return cat("cotangent ", name, ", recorded: ", problem);
  }
  return "";
}

// Each input in turn repeated along one axis by a stride of 0, against a contiguous copy of the same numbers.
std::string broadcast_problem(const OpCase& op_case, const Tensors& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (int axis = 0; axis < inputs[i].rank(); ++axis) {
      if (inputs[i].shape()[axis] < 2 || !is_floating(inputs[i].dtype())) continue;
      Tensors expanded = inputs, copied = inputs;
      expanded[i] = view::expand(view::slice(inputs[i], axis, {0, 1}), inputs[i].shape());
      copied[i] = copy(expanded[i]);
      if (auto problem = differing_bits(run(op_case, expanded), run(op_case, copied)); !problem.empty())
        return cat("input ", i, " along axis ", axis, ": ", problem);
    }
  return "";
}

// Where changing an element changes an output, a NaN there must make that output NaN.
std::string hidden_nan(const OpCase& op_case, const Tensors& inputs) {
  const Tensor before = contiguous(op_case.call(inputs));
  if (before.dtype() != DType::f64) return "";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(inputs[i].dtype())) continue;
    for (index_t e = 0; e < std::min<index_t>(inputs[i].numel(), 70); ++e) {
      const auto with = [&](double value) {
        Tensors changed = inputs;
        changed[i] = copy(inputs[i]);
        changed[i].mutable_data<double>()[e] = value;
        return contiguous(op_case.call(changed));
      };
      const double old = inputs[i].data<double>()[e];
      const Tensor moved = with(old + 0.37);
      Tensor poisoned;
      try {
        poisoned = with(std::numeric_limits<double>::quiet_NaN());
      } catch (const ValueError&) {
        continue;  // refused, hence not hidden
      }
      for (index_t o = 0; o < before.numel(); ++o)
        if (moved.data<double>()[o] != before.data<double>()[o] && !std::isnan(poisoned.data<double>()[o]))
          return cat("NaN at input ", i, ", element ", e, " leaves output ", o, " = ", poisoned.data<double>()[o]);
    }
  }
  return "";
}

std::string thread_problem(const OpCase& op_case, const Tensors& inputs) {
  const int before = thread_count();
  std::string problem;
  set_thread_count(1);
  const Outcome expected = run(op_case, inputs);
  for (int threads : {2, 4}) {
    set_thread_count(threads);
    if (problem.empty()) problem = differing_bits(run(op_case, inputs), expected);
    if (!problem.empty()) problem = cat(threads, " threads: ", problem);
  }
  set_thread_count(before);
  return problem;
}

std::string instruction_set_problem(const OpCase& op_case, const Tensors& inputs) {
  using kernels::Isa;
  const Isa before = kernels::active_isa();
  const auto on = [&](Isa isa) {
    kernels::select_isa(isa);
    return run(op_case, inputs);
  };
  std::string problem;
  if (kernels::available(Isa::avx2)) {
    const Outcome expected = on(Isa::avx2);
    if (kernels::available(Isa::avx512)) problem = differing_bits(on(Isa::avx512), expected);
    // The baseline has no fma: the same to rounding, not to the bit.
    if (problem.empty()) problem = far_apart(on(Isa::baseline), expected, 1e-11);
  }
  kernels::select_isa(before);
  return problem;
}

std::string precision_problem(const OpCase& op_case, const Tensors&) {
  Tensors single = make_inputs(op_case, DType::f32, seed);
  Tensors same_numbers;
  for (const Tensor& x : single) {
    if (x.dtype() != DType::f32) {
      same_numbers.push_back(x);
      continue;
    }
    const std::vector<float> values = x.to_vector<float>();
    same_numbers.push_back(Tensor::from(std::vector<double>(values.begin(), values.end()), x.shape()));
  }
  const Tensor a = op_case.call(single), b = op_case.call(same_numbers);
  return far_apart(a, b, 2e-5, "f32 and f64 outputs");
}

// ---- the list ---------------------------------------------------------------------------------------------------------

using Problem = std::function<std::string(const OpCase&, const Tensors&)>;

CheckResult over_cases(const OpDef& op, const char* check, const std::vector<OpCase>& cases, bool kinks_too, const Problem& problem) {
  CheckResult result{op.name, check, true, 0, ""};
  for (const OpCase& op_case : cases) {
    if (op_case.at_kink && !kinks_too) continue;
    ++result.cases;
    std::string found;
    try {
      found = problem(op_case, make_inputs(op_case, DType::f64, seed));
    } catch (const std::exception& error) {
      found = cat("threw: ", error.what());
    }
    if (found.empty()) continue;
    result.passed = false;
    result.detail = cat("case '", op_case.name, "': ", found);
    break;
  }
  return result;
}

CheckResult definition_check(const OpDef& op, const std::vector<OpCase>& cases) {
  CheckResult result{op.name, "definition", true, static_cast<int>(cases.size()), ""};
  bool empty = false;
  for (const OpCase& op_case : cases)
    for (const InputSpec& spec : op_case.inputs) empty = empty || numel(spec.shape) == 0;
  if (cases.empty()) result.detail = "no cases";
  else if (!empty) result.detail = "no case with an empty input";
  else if (op.composed() && !op.composite) result.detail = "neither a forward nor a composite";
  else if (!op.composed() && !op.vjp && op.gradient != GradientKind::zero) result.detail = "no vjp and no reason";
  else if (op.gradient != GradientKind::exact && std::string_view(op.gradient_note).empty()) result.detail = "a gradient that is not exact needs a note";
  else if (std::string_view(op.formula).empty()) result.detail = "no formula";
  else if (std::string_view(op.shapes).empty()) result.detail = "no shapes";
  result.passed = result.detail.empty();
  return result;
}

std::string zero_gradient_problem(const OpCase& op_case, const Tensors& inputs) {
  for (const Tensor& g : run(op_case, inputs).gradients)
    if (max_difference(g, Tensor::zeros(g.shape(), g.dtype())) != 0) return "a gradient that should be zero is not";
  return "";
}

// The gradient of a surrogate is, bit for bit where the graphs agree and to rounding elsewhere, that of its oracle.
std::string oracle_problem(const OpCase& op_case, const Tensors& inputs) {
  if (!op_case.oracle) return "no oracle";
  OpCase oracle = op_case;
  oracle.call = op_case.oracle;
  Outcome borrowed = run(op_case, inputs), lent = run(oracle, inputs);
  lent.output = borrowed.output;  // only the gradients are borrowed
  if (borrowed.gradients.empty()) return "no gradient";
  return far_apart(borrowed, lent, 1e-12);
}

// Every dtype that is declared runs, and every other one is refused as such.
CheckResult dtype_check(const OpDef& op, const std::vector<OpCase>& cases) {
  CheckResult result{op.name, "dtypes", true, 0, ""};
  const std::string declared = cat(' ', op.dtypes, ' ');
  const bool of_numbers = declared.find(" f32 ") != std::string::npos || declared.find(" f64 ") != std::string::npos;
  for (const OpCase& op_case : cases) {
    if (op_case.at_kink) continue;
    ++result.cases;
    for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::boolean}) {
      const bool wanted = declared.find(cat(' ', name_of(dtype), ' ')) != std::string::npos;
      std::string problem;
      try {
        Tensors inputs = make_inputs(op_case, dtype, seed);
        // An op of indices or masks alone: it is they that take the dtype.
        if (!of_numbers)
          for (Tensor& x : inputs) {
            Tensor converted = Tensor::empty(x.shape(), dtype);
            compute::cast(x, converted);
            x = converted;
          }
        (void)op_case.call(inputs);
        if (!wanted) problem = "is not declared but runs";
      } catch (const DTypeError& error) {
        if (wanted) problem = cat("is declared but refused: ", error.what());
      } catch (const std::exception& error) {
        problem = cat("threw: ", error.what());
      }
      if (problem.empty()) continue;
      result.passed = false;
      result.detail = cat("case '", op_case.name, "': ", name_of(dtype), ' ', problem);
      return result;
    }
    break;  // one ordinary case tells
  }
  return result;
}

std::string failed(const GradcheckResult& result) { return result.passed ? "" : result.describe(); }

}  // namespace

std::vector<Tensor> make_inputs(const OpCase& op_case, DType floating, std::uint64_t input_seed) {
  Tensors inputs;
  for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
    const InputSpec& spec = op_case.inputs[i];
    const Random random(input_seed, i + 1);
    const auto number = [&](index_t e) {
      const auto at = static_cast<std::uint64_t>(e);
      switch (spec.fill) {
        case InputSpec::Fill::normal: return random.normal(at);
        case InputSpec::Fill::uniform: return spec.low + (spec.high - spec.low) * random.uniform(at);
        case InputSpec::Fill::integers: return std::floor(spec.low + (spec.high - spec.low) * random.uniform(at));
        case InputSpec::Fill::booleans: return random.uniform(at) < 0.5 ? 0.0 : 1.0;
        case InputSpec::Fill::values:
        case InputSpec::Fill::integer_values: break;
      }
      return spec.values.at(static_cast<std::size_t>(e));
    };
    const bool integers = spec.fill == InputSpec::Fill::integers || spec.fill == InputSpec::Fill::integer_values;
    const DType dtype = integers ? DType::i64 : spec.fill == InputSpec::Fill::booleans ? DType::boolean : floating;
    Tensor t = Tensor::empty(spec.shape, dtype);
    visit_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      T* out = t.mutable_data<T>();
      for (index_t e = 0; e < t.numel(); ++e) out[e] = static_cast<T>(number(e));
    });
    inputs.push_back(t);
  }
  return inputs;
}

std::vector<CheckResult> check_op(const OpDef& op) {
  const std::vector<OpCase> cases = op.cases ? op.cases() : std::vector<OpCase>{};
  std::vector<CheckResult> results{definition_check(op, cases)};
  const auto add = [&](const char* check, bool kinks_too, const Problem& problem) { results.push_back(over_cases(op, check, cases, kinks_too, problem)); };
  if (op.gradient == GradientKind::exact) {
    add("gradient", false, [](const OpCase& c, const Tensors& x) { return failed(gradcheck(c.call, x)); });
    add("second derivative", false, [](const OpCase& c, const Tensors& x) { return failed(gradcheck_second(c.call, x)); });
  } else if (op.gradient == GradientKind::zero) {
    add("zero gradient", true, zero_gradient_problem);
  } else {
    add("surrogate gradient", true, oracle_problem);
  }
  if (op.fused_vjp) add("fused backward", true, [](const OpCase& c, const Tensors& x) { return far_apart(run(c, x), run(c, x, {}, true), 1e-12); });
  if (op.composite && !op.composed())
    add("composite forward", true, [](const OpCase& c, const Tensors& x) { return far_apart(run(c, x, {.expand = true}), run(c, x), 1e-12); });
  add("layout", true, layout_problem);
  add("broadcast", true, broadcast_problem);
  if (!op.hides_nan) add("nan", true, hidden_nan);
  add("threads", true, thread_problem);
  add("instruction sets", true, instruction_set_problem);
  add("f32", true, precision_problem);
  results.push_back(dtype_check(op, cases));
  return results;
}

}  // namespace gradus
