#pragma once
// An op is one definition: name, formula, shape rule, forward, vjp, what it saves, and the cases it must pass. The
// registry of definitions drives every check, benchmark row and listing.

#include <array>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "engine/tensor/tensor.hpp"

namespace gradus {

struct OpDef;
class Vjp;

inline constexpr int max_outputs = 2;

/// What an op's gradient is, and so what it is checked against.
enum class GradientKind : std::uint8_t {
  exact,      ///< the derivative
  zero,       ///< zero almost everywhere (hardmax, rounding, comparisons)
  surrogate,  ///< another function's derivative, named in `gradient_note`
};
[[nodiscard]] const char* name_of(GradientKind kind) noexcept;

/// Bits of OpDef::saves: which inputs and whether the output are kept for the vjp.
namespace save {
inline constexpr unsigned nothing = 0;
inline constexpr unsigned output = 1u << 31;
constexpr unsigned input(int i) { return 1u << i; }
inline constexpr unsigned inputs = output - 1;  ///< all of them
}  // namespace save

/// One execution of an op: its inputs, attributes and outputs.
class Run {
 public:
  Run(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, std::uint64_t noise)
      : op_(op), inputs_(inputs), attributes_(attributes), noise_(noise) {}

  [[nodiscard]] const OpDef& op() const noexcept { return op_; }
  [[nodiscard]] const char* name() const noexcept;
  [[nodiscard]] int inputs() const noexcept { return static_cast<int>(inputs_.size()); }
  [[nodiscard]] const Tensor& in(int i) const noexcept { return *inputs_[static_cast<std::size_t>(i)]; }
  template <class Attributes>
  [[nodiscard]] const Attributes& attr() const noexcept {
    return *static_cast<const Attributes*>(attributes_);
  }
  [[nodiscard]] const void* attributes() const noexcept { return attributes_; }
  /// In a shape rule: declares the next output.
  void declare(const Shape& shape, DType dtype);
  [[nodiscard]] int outputs() const noexcept { return outputs_count_; }
  [[nodiscard]] Tensor& out(int i = 0) noexcept { return outputs_[static_cast<std::size_t>(i)]; }
  /// For random ops: a number that is fixed for a step of one pass and differs from pass to pass.
  [[nodiscard]] std::uint64_t noise() const noexcept { return noise_; }
  /// Gives every declared output its storage (views set their own).
  void allocate_outputs();

 private:
  const OpDef& op_;
  std::span<const Tensor* const> inputs_;
  const void* attributes_;
  std::uint64_t noise_;
  std::array<std::pair<Shape, DType>, max_outputs> declared_;
  std::array<Tensor, max_outputs> outputs_;
  int outputs_count_ = 0;
};

/// How the checks fill one input of a case.
struct InputSpec {
  enum class Fill : std::uint8_t { normal, uniform, integers, booleans, values, integer_values };
  Shape shape;
  Fill fill = Fill::normal;
  double low = 0, high = 1;    ///< uniform: the interval; integers: [low, high)
  std::vector<double> values;  ///< values, integer_values: row-major, the whole input
};
[[nodiscard]] InputSpec normal_input(const Shape& shape);
[[nodiscard]] InputSpec uniform_input(const Shape& shape, double low, double high);
[[nodiscard]] InputSpec integer_input(const Shape& shape, index_t below);
[[nodiscard]] InputSpec boolean_input(const Shape& shape);
[[nodiscard]] InputSpec value_input(const Shape& shape, std::vector<double> values);
[[nodiscard]] InputSpec integer_values(const Shape& shape, std::vector<double> values);

/// One case of an op: its inputs and how the public function is called on them.
struct OpCase {
  const char* name;
  std::vector<InputSpec> inputs;
  Tensor (*call)(std::span<const Tensor> inputs);
  bool at_kink = false;  ///< laws are tested here, but finite differences mean nothing
  /// Of an op with a surrogate gradient: the function whose gradient it borrows.
  Tensor (*oracle)(std::span<const Tensor> inputs) = nullptr;
};

/// One definition. Without a `forward` it is composed: `composite` is what always runs, recorded as its parts, and the
/// gradient is theirs.
struct OpDef {
  const char* name;
  const char* family;
  const char* formula;             ///< as LaTeX without dollars
  const char* shapes = "";         ///< of inputs and output in letters: "(..., N, D), (..., K, D) -> (..., N, K)"
  const char* dtypes = "f32 f64";  ///< of the inputs that carry numbers; indices are i64, masks bool
  const char* law = "";            ///< what happens at edges, in words
  GradientKind gradient = GradientKind::exact;
  const char* gradient_note = "";       ///< reason for a zero gradient, oracle of a surrogate one, kinks
  void (*shape)(Run&) = nullptr;        ///< checks everything, declares the outputs; throws before any work
  void (*forward)(Run&) = nullptr;      ///< fills the outputs; none: a composed op
  void (*vjp)(Vjp&) = nullptr;          ///< in differentiable ops, so that it can itself be recorded
  void (*fused_vjp)(Vjp&) = nullptr;    ///< same gradients by kernels; used when the backward is not recorded
  Tensor (*composite)(Run&) = nullptr;  ///< the same function in other ops; recorded by a tape opened with `expand`
  unsigned saves = save::nothing;
  bool is_view = false;    ///< the output shares storage; forward assigns it
  bool hides_nan = false;  ///< selection ops: a NaN that is not selected is not seen
  std::vector<OpCase> (*cases)() = nullptr;

  [[nodiscard]] bool composed() const noexcept { return forward == nullptr; }
};

/// Runs an op: on no tape when no input is on one, else recorded. `inputs` are checked by the op's shape rule.
[[nodiscard]] Tensor apply(const OpDef& op, std::span<const Tensor* const> inputs, const void* attributes, std::size_t attribute_bytes);

template <class Attributes>
[[nodiscard]] Tensor apply(const OpDef& op, std::initializer_list<const Tensor*> inputs, const Attributes& attributes) {
  static_assert(std::is_trivially_copyable_v<Attributes> && alignof(Attributes) <= 8, "attributes are copied as bytes");
  return apply(op, std::span(inputs.begin(), inputs.size()), &attributes, sizeof attributes);
}
[[nodiscard]] inline Tensor apply(const OpDef& op, std::initializer_list<const Tensor*> inputs) {
  return apply(op, std::span(inputs.begin(), inputs.size()), nullptr, 0);
}

}  // namespace gradus
