// Comparisons, logic and selection.
#include "engine/ops/define.hpp"

namespace gradus {
namespace {

using define::Inputs;
using kernels::Compare;

void broadcast_compare(Run& r) {
  define::require_same_dtype(r, 0, 1);
  r.declare(broadcast_shapes(r.in(0).shape(), r.in(1).shape(), r.name()), DType::boolean);
}

template <Compare kind, Tensor (*f)(const Tensor&, const Tensor&)>
constexpr OpDef comparison(const char* name, const char* formula, const char* law) {
  return {.name = name,
          .family = "logic",
          .formula = formula,
          .shapes = "(...), (...) -> broadcast (...)",
          .dtypes = "f32 f64 i64 bool",
          .law = law,
          .gradient = GradientKind::zero,
          .gradient_note = "a bool has no derivative",
          .shape = broadcast_compare,
          .forward = [](Run& r) { compute::compare(kind, r.in(0), r.in(1), r.out()); },
          .cases =
              [] {
                const auto call = [](Inputs x) { return f(x[0], x[1]); };
                return std::vector<OpCase>{{"ties", {value_input({5}, {1, 2, 3, -1, 0}), value_input({5}, {1, 3, 2, -1, 0})}, call},
                                           {"row and column", {normal_input({3, 1}), normal_input({1, 4})}, call},
                                           {"integers", {integer_input({67}, 5), integer_input({67}, 5)}, call},
                                           {"empty", {normal_input({0}), normal_input({})}, call}};
              }};
}

const OpDef equal_op = comparison<Compare::equal, equal_to>("equal_to", "y = [a = b]", "false with NaN");
const OpDef not_equal_op = comparison<Compare::not_equal, not_equal>("not_equal", R"(y = [a \ne b])", "true with NaN");
const OpDef less_op = comparison<Compare::less, less>("less", "y = [a < b]", "false with NaN");
const OpDef less_equal_op = comparison<Compare::less_equal, less_equal>("less_equal", R"(y = [a \le b])", "false with NaN");
const OpDef greater_op = comparison<Compare::greater, greater>("greater", "y = [a > b]", "false with NaN");
const OpDef greater_equal_op = comparison<Compare::greater_equal, greater_equal>("greater_equal", R"(y = [a \ge b])", "false with NaN");

void broadcast_bools(Run& r) {
  define::require_dtype(r, 0, DType::boolean);
  define::require_dtype(r, 1, DType::boolean);
  r.declare(broadcast_shapes(r.in(0).shape(), r.in(1).shape(), r.name()), DType::boolean);
}

template <Tensor (*f)(const Tensor&, const Tensor&)>
constexpr OpDef connective(const char* name, const char* formula, Tensor (*composite)(Run&)) {
  return {.name = name,
          .family = "logic",
          .formula = formula,
          .shapes = "(...), (...) -> broadcast (...)",
          .dtypes = "bool",
          .gradient = GradientKind::zero,
          .gradient_note = "a bool has no derivative",
          .shape = broadcast_bools,
          .composite = composite,
          .cases = [] {
            const auto call = [](Inputs x) { return f(x[0], x[1]); };
            return std::vector<OpCase>{{"same shape", {boolean_input({67}), boolean_input({67})}, call},
                                       {"row and column", {boolean_input({3, 1}), boolean_input({1, 4})}, call},
                                       {"scalar", {boolean_input({}), boolean_input({5})}, call},
                                       {"empty", {boolean_input({0}), boolean_input({})}, call}};
          }};
}

const OpDef and_op = connective<logical_and>("logical_and", R"(y = a \land b)", [](Run& r) { return where(r.in(0), r.in(1), 0.0); });
const OpDef or_op = connective<logical_or>("logical_or", R"(y = a \lor b)", [](Run& r) { return where(r.in(0), 1.0, r.in(1)); });
const OpDef xor_op = connective<logical_xor>("logical_xor", R"(y = a \oplus b)", [](Run& r) { return not_equal(r.in(0), r.in(1)); });

const OpDef not_op = {.name = "logical_not",
                      .family = "logic",
                      .formula = R"(y = \lnot x)",
                      .shapes = "(...) -> (...)",
                      .dtypes = "bool",
                      .gradient = GradientKind::zero,
                      .gradient_note = "a bool has no derivative",
                      .shape =
                          [](Run& r) {
                            define::require_dtype(r, 0, DType::boolean);
                            r.declare(r.in(0).shape(), DType::boolean);
                          },
                      .composite = [](Run& r) { return equal_to(r.in(0), 0.0); },
                      .cases =
                          [] {
                            const auto call = [](Inputs x) { return logical_not(x[0]); };
                            return std::vector<OpCase>{{"vector of 67", {boolean_input({67})}, call},
                                                       {"3 x 4", {boolean_input({3, 4})}, call},
                                                       {"scalar", {boolean_input({})}, call},
                                                       {"empty", {boolean_input({0, 2})}, call}};
                          }};

const OpDef where_op = {
    .name = "where",
    .family = "logic",
    .formula = R"(y = c \,?\, a : b)",
    .shapes = "(...) bool, (...), (...) -> broadcast (...)",
    .dtypes = "f32 f64 i64 bool",
    .law = "selects, never multiplies: NaN or inf of the branch not taken is not seen, forward or backward",
    .shape =
        [](Run& r) {
          define::require_dtype(r, 0, DType::boolean);
          define::require_same_dtype(r, 1, 2);
          const Shape values = broadcast_shapes(r.in(1).shape(), r.in(2).shape(), "where");
          r.declare(broadcast_shapes(r.in(0).shape(), values, "where"), r.in(1).dtype());
        },
    .forward = [](Run& r) { compute::select(r.in(0), r.in(1), r.in(2), r.out()); },
    .vjp =
        [](Vjp& b) {
          const Tensor c = b.input(0);
          if (b.needs(1)) b.to(1, where(c, b.grad(), 0.0));
          if (b.needs(2)) b.to(2, where(c, 0.0, b.grad()));
        },
    .saves = save::input(0),
    .hides_nan = true,
    .cases =
        [] {
          const auto call = [](Inputs x) { return where(x[0], x[1], x[2]); };
          return std::vector<OpCase>{{"same shape", {boolean_input({3, 4}), normal_input({3, 4}), normal_input({3, 4})}, call},
                                     {"broadcast", {boolean_input({3, 1}), normal_input({4}), normal_input({})}, call},
                                     {"vector of 67", {boolean_input({67}), normal_input({67}), normal_input({67})}, call},
                                     {"empty", {boolean_input({0}), normal_input({0}), normal_input({})}, call}};
        },
};

}  // namespace

Tensor equal_to(const Tensor& a, const Tensor& b) { return apply(equal_op, {&a, &b}); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return apply(not_equal_op, {&a, &b}); }
Tensor less(const Tensor& a, const Tensor& b) { return apply(less_op, {&a, &b}); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return apply(less_equal_op, {&a, &b}); }
Tensor greater(const Tensor& a, const Tensor& b) { return apply(greater_op, {&a, &b}); }
Tensor greater_equal(const Tensor& a, const Tensor& b) { return apply(greater_equal_op, {&a, &b}); }
Tensor logical_and(const Tensor& a, const Tensor& b) { return apply(and_op, {&a, &b}); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return apply(or_op, {&a, &b}); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return apply(xor_op, {&a, &b}); }
Tensor logical_not(const Tensor& x) { return apply(not_op, {&x}); }
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) { return apply(where_op, {&condition, &a, &b}); }

std::span<const OpDef* const> logic_ops() {
  static const OpDef* const all[] = {&equal_op, &not_equal_op, &less_op, &less_equal_op, &greater_op, &greater_equal_op,
                                     &and_op,   &or_op,        &xor_op,  &not_op,        &where_op};
  return all;
}

}  // namespace gradus
