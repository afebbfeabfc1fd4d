// Layouts that copy: placing in zeros, joining, repeating, rolling, triangles.
#include <algorithm>

#include "engine/ops/define.hpp"
#include "engine/ops/layout.hpp"

namespace gradus {
namespace {

using define::Inputs;

struct EmbedAttributes {
  index_t axis;
  Slice slice;
  index_t size;  // of the full axis
};

const OpDef embed_slice_op = {
    .name = "embed_slice",
    .family = "layout",
    .formula = R"(y_{s + i t} = x_i, \text{ else } 0)",
    .shapes = "(..., n, ...) -> (..., N, ...)",
    .dtypes = "f32 f64 i64 bool",
    .shape =
        [](Run& r) {
          const auto& a = r.attr<EmbedAttributes>();
          const int axis = normalize_axis(a.axis, r.in(0).rank(), "embed_slice");
          Shape shape = r.in(0).shape();
          shape[axis] = a.size;
          if (a.size < 0 || view::resolve_slice(a.slice, a.size).count != r.in(0).shape()[axis])
            throw ShapeError("embed_slice", cat("the slice of an axis of ", a.size, " does not hold ", r.in(0).shape()[axis], " elements"),
                             "give the slice they came from");
          r.declare(shape, r.in(0).dtype());
        },
    .forward =
        [](Run& r) {
          const auto& a = r.attr<EmbedAttributes>();
          copy_into(r.out(), Tensor::scalar(0, r.out().dtype()));
          Tensor place = view::slice(r.out(), a.axis, a.slice);
          copy_into(place, r.in(0));
        },
    .vjp = [](Vjp& b) { b.to(0, slice(b.grad(), b.attr<EmbedAttributes>().axis, b.attr<EmbedAttributes>().slice)); },
    .cases =
        [] {
          return std::vector<OpCase>{{"step 2",
                                      {normal_input({3, 2})},
                                      [](Inputs x) {
                                        return embed_slice(x[0], 0, {1, Slice::none, 2}, 7);
                                      }},
                                     {"backwards",
                                      {normal_input({2, 3})},
                                      [](Inputs x) {
                                        return embed_slice(x[0], 1, {Slice::none, Slice::none, -2}, 6);
                                      }},
                                     {"empty", {normal_input({0})}, [](Inputs x) {
                                        return embed_slice(x[0], 0, {0, 0}, 3);
                                      }}};
        },
};

const OpDef concat_op = {
    .name = "concat",
    .family = "layout",
    .formula = R"(y = [x_1, x_2, \dots])",
    .shapes = "(..., N1, ...), (..., N2, ...), ... -> (..., N1 + N2 + ..., ...)",
    .dtypes = "f32 f64 i64 bool",
    .law = "parts of size 0 along the axis are allowed",
    .shape =
        [](Run& r) {
          if (r.inputs() == 0) throw ValueError("concat", "no parts", "give at least one tensor");
          Shape shape = r.in(0).shape();
          const int axis = normalize_axis(r.attr<index_t>(), shape.rank(), "concat");
          for (int i = 1; i < r.inputs(); ++i) {
            define::require_same_dtype(r, 0, i);
            Shape part = r.in(i).shape();
            if (part.rank() != shape.rank())
              throw ShapeError("concat", cat("part ", i, " has shape ", part, ", part 0 ", r.in(0).shape()), "all ranks must agree");
            shape[axis] += part[axis];
            part[axis] = r.in(0).shape()[axis];
            if (part != r.in(0).shape())
              throw ShapeError("concat", cat("part ", i, " has shape ", r.in(i).shape(), ", part 0 ", r.in(0).shape()), "sizes must agree off the axis");
          }
          r.declare(shape, r.in(0).dtype());
        },
    .forward =
        [](Run& r) {
          index_t at = 0;
          for (int i = 0; i < r.inputs(); ++i) {
            const index_t size = r.in(i).size(r.attr<index_t>());
            Tensor place = view::slice(r.out(), r.attr<index_t>(), {at, at + size});
            copy_into(place, r.in(i));
            at += size;
          }
        },
    .vjp =
        [](Vjp& b) {
          index_t at = 0;
          for (int i = 0; i < b.inputs(); ++i) {
            const index_t size = b.input_shape(i)[normalize_axis(b.attr<index_t>(), b.input_shape(i).rank(), "concat")];
            if (b.needs(i)) b.to(i, slice(b.grad(), b.attr<index_t>(), {at, at + size}));
            at += size;
          }
        },
    .cases =
        [] {
          return std::vector<OpCase>{{"rows", {normal_input({2, 3}), normal_input({1, 3}), normal_input({4, 3})}, [](Inputs x) { return concat(x); }},
                                     {"columns", {normal_input({2, 3}), normal_input({2, 1})}, [](Inputs x) { return concat(x, -1); }},
                                     {"one part", {normal_input({2, 3})}, [](Inputs x) { return concat(x); }},
                                     {"empty", {normal_input({0, 3}), normal_input({2, 3})}, [](Inputs x) { return concat(x); }}};
        },
};

constexpr OpDef composed(const char* name, const char* formula, const char* shapes, const char* law, void (*shape)(Run&), Tensor (*composite)(Run&),
                         std::vector<OpCase> (*cases)()) {
  return {.name = name,
          .family = "layout",
          .formula = formula,
          .shapes = shapes,
          .dtypes = "f32 f64 i64 bool",
          .law = law,
          .shape = shape,
          .composite = composite,
          .cases = cases};
}

const OpDef stack_op = composed(
    "stack", R"(y_{i \dots} = (x_i)_{\dots})", "(...), (...), ... -> (..., K, ...)", "all shapes must agree",
    [](Run& r) {
      if (r.inputs() == 0) throw ValueError("stack", "no parts", "give at least one tensor");
      for (int i = 1; i < r.inputs(); ++i) {
        define::require_same_dtype(r, 0, i);
        if (r.in(i).shape() != r.in(0).shape())
          throw ShapeError("stack", cat("part ", i, " has shape ", r.in(i).shape(), ", part 0 ", r.in(0).shape()), "all must agree");
      }
      (void)normalize_axis(r.attr<index_t>(), r.in(0).rank() + 1, "stack");
    },
    [](Run& r) {
      TensorList wider;
      for (int i = 0; i < r.inputs(); ++i) wider.push_back(unsqueeze(r.in(i), r.attr<index_t>()));
      return concat(wider, r.attr<index_t>());
    },
    [] {
      return std::vector<OpCase>{{"rows", {normal_input({3}), normal_input({3}), normal_input({3})}, [](Inputs x) { return stack(x); }},
                                 {"second axis", {normal_input({2, 3}), normal_input({2, 3})}, [](Inputs x) { return stack(x, 1); }},
                                 {"last axis", {normal_input({2, 3}), normal_input({2, 3})}, [](Inputs x) { return stack(x, -1); }},
                                 {"scalars", {normal_input({}), normal_input({})}, [](Inputs x) { return stack(x); }},
                                 {"empty", {normal_input({0, 2}), normal_input({0, 2})}, [](Inputs x) { return stack(x); }}};
    });

struct PadAttributes {
  index_t axis, before, after;
};

const OpDef pad_op = composed(
    "pad", R"(y_{b + i} = x_i, \text{ else } 0)", "(..., N, ...) -> (..., before + N + after, ...)", "a negative amount is an error",
    [](Run& r) {
      const auto& a = r.attr<PadAttributes>();
      if (a.before < 0 || a.after < 0) throw ValueError("pad", cat("padding of ", a.before, " and ", a.after), "use slice to remove elements");
      (void)normalize_axis(a.axis, r.in(0).rank(), "pad");
    },
    [](Run& r) {
      const auto& a = r.attr<PadAttributes>();
      const index_t size = r.in(0).size(a.axis);
      return embed_slice(r.in(0), a.axis, {a.before, a.before + size}, a.before + size + a.after);
    },
    [] {
      return std::vector<OpCase>{{"both sides", {normal_input({2, 3})}, [](Inputs x) { return pad(x[0], 1, 2, 1); }},
                                 {"before", {normal_input({4})}, [](Inputs x) { return pad(x[0], 0, 3, 0); }},
                                 {"after, middle", {normal_input({2, 2, 2})}, [](Inputs x) { return pad(x[0], -2, 0, 1); }},
                                 {"empty", {normal_input({0, 2})}, [](Inputs x) { return pad(x[0], 0, 1, 1); }}};
    });

struct RollAttributes {
  index_t axis, shift;
};

const OpDef roll_op = composed(
    "roll", R"(y_{(i + s) \bmod N} = x_i)", "(..., N, ...) -> (..., N, ...)", "any shift, also negative or beyond the size",
    [](Run& r) { (void)normalize_axis(r.attr<RollAttributes>().axis, r.in(0).rank(), "roll"); },
    [](Run& r) {
      const auto& a = r.attr<RollAttributes>();
      const index_t n = r.in(0).size(a.axis), shift = n > 0 ? (a.shift % n + n) % n : 0;
      const std::array<Tensor, 2> parts{slice(r.in(0), a.axis, {n - shift}), slice(r.in(0), a.axis, {0, n - shift})};
      return concat(parts, a.axis);
    },
    [] {
      return std::vector<OpCase>{{"by two", {normal_input({7})}, [](Inputs x) { return roll(x[0], 0, 2); }},
                                 {"back", {normal_input({2, 5})}, [](Inputs x) { return roll(x[0], -1, -1); }},
                                 {"around more than once", {normal_input({3, 2})}, [](Inputs x) { return roll(x[0], 0, 8); }},
                                 {"not at all", {normal_input({3})}, [](Inputs x) { return roll(x[0], 0, 3); }},
                                 {"empty", {normal_input({0, 2})}, [](Inputs x) { return roll(x[0], 0, 1); }}};
    });

struct RepeatAttributes {
  index_t axis, count;
};

const OpDef repeat_op = composed(
    "repeat", R"(y_{i + k N} = x_i)", "(..., N, ...) -> (..., count N, ...)", "the whole axis again and again; count 0 leaves nothing",
    [](Run& r) {
      const auto& a = r.attr<RepeatAttributes>();
      if (a.count < 0) throw ValueError("repeat", cat("a count of ", a.count), "give 0 or more");
      Shape shape = r.in(0).shape();
      index_t& size = shape[normalize_axis(a.axis, shape.rank(), "repeat")];
      size = checked_mul(size, a.count, shape);
      r.declare(shape, r.in(0).dtype());
    },
    [](Run& r) {
      const auto& a = r.attr<RepeatAttributes>();
      Shape shape = r.in(0).shape();
      const int axis = normalize_axis(a.axis, shape.rank(), "repeat");
      index_t outer = 1, inner = 1;
      for (int i = 0; i < shape.rank(); ++i) (i < axis ? outer : inner) *= shape[i];
      shape[axis] *= a.count;
      return reshape(expand(reshape(r.in(0), {outer, 1, inner}), {outer, a.count, inner}), shape);
    },
    [] {
      return std::vector<OpCase>{{"rows", {normal_input({2, 3})}, [](Inputs x) { return repeat(x[0], 0, 3); }},
                                 {"columns", {normal_input({2, 3})}, [](Inputs x) { return repeat(x[0], -1, 2); }},
                                 {"middle", {normal_input({2, 2, 3})}, [](Inputs x) { return repeat(x[0], 1, 2); }},
                                 {"nothing left", {normal_input({3})}, [](Inputs x) { return repeat(x[0], 0, 0); }},
                                 {"empty", {normal_input({0, 2})}, [](Inputs x) { return repeat(x[0], 1, 2); }}};
    });

// Column minus row at each place of a matrix.
Tensor diagonal_of_place(index_t rows, index_t columns) { return Tensor::arange(columns) - reshape(Tensor::arange(rows), {rows, 1}); }

// An offset as a number, no further out than the first empty diagonal.
double bounded(index_t offset, index_t rows, index_t columns) { return static_cast<double>(std::clamp(offset, -rows, columns)); }

template <Tensor (*keeps)(const Tensor& diagonal, double offset), Tensor (*f)(const Tensor&, index_t)>
constexpr OpDef triangle(const char* name, const char* formula) {
  return composed(
      name, formula, "(..., M, N) -> (..., M, N)", "selects: a NaN outside the triangle is not seen",
      [](Run& r) {
        if (r.in(0).rank() < 2) throw ShapeError(r.name(), cat("x has shape ", r.in(0).shape()), "give a matrix, or a stack of them");
      },
      [](Run& r) {
        const Tensor& x = r.in(0);
        const index_t rows = x.size(-2), columns = x.size(-1);
        return where(keeps(diagonal_of_place(rows, columns), bounded(r.attr<index_t>(), rows, columns)), x, 0.0);
      },
      [] {
        return std::vector<OpCase>{{"square", {normal_input({4, 4})}, [](Inputs x) { return f(x[0], 0); }},
                                   {"wide, above", {normal_input({3, 5})}, [](Inputs x) { return f(x[0], 2); }},
                                   {"tall, below, in a stack", {normal_input({2, 5, 3})}, [](Inputs x) { return f(x[0], -2); }},
                                   {"empty", {normal_input({0, 3})}, [](Inputs x) { return f(x[0], 0); }}};
      });
}

const OpDef tril_op = triangle<[](const Tensor& diagonal, double offset) { return less_equal(diagonal, offset); }, tril>(
    "tril", R"(y_{ij} = x_{ij} \text{ if } j - i \le d, \text{ else } 0)");
const OpDef triu_op = triangle<[](const Tensor& diagonal, double offset) { return greater_equal(diagonal, offset); }, triu>(
    "triu", R"(y_{ij} = x_{ij} \text{ if } j - i \ge d, \text{ else } 0)");

struct DiagonalAttributes {
  index_t rows, columns, offset;
};

const OpDef embed_diagonal_op = composed(
    "embed_diagonal", R"(y_{i, i + d} = x_i, \text{ else } 0)", "(..., K) -> (..., M, N)", "K must be the length of that diagonal",
    [](Run& r) {
      const auto& a = r.attr<DiagonalAttributes>();
      if (a.rows < 0 || a.columns < 0) throw ValueError("embed_diagonal", cat("a matrix of ", a.rows, " by ", a.columns), "give sizes of 0 or more");
      const index_t right = std::clamp(a.offset, -a.rows, a.columns);
      const index_t length = std::min(a.rows + std::min<index_t>(right, 0), a.columns - std::max<index_t>(right, 0));
      if (r.in(0).rank() == 0 || r.in(0).shape().back() != length)
        throw ShapeError("embed_diagonal", cat(r.in(0).shape(), " on diagonal ", a.offset, " of ", a.rows, " by ", a.columns),
                         cat("the last axis must be ", length, " long"));
    },
    [](Run& r) {
      // Element i of the diagonal, brought to its row, stands in all columns; the diagonal is selected.
      const auto& a = r.attr<DiagonalAttributes>();
      const index_t above = std::min(std::max<index_t>(-std::max(a.offset, -a.rows), 0), a.rows), below = a.rows - above - r.in(0).size(-1);
      const Tensor rows = unsqueeze(pad(r.in(0), -1, above, below), -1);
      return where(equal_to(diagonal_of_place(a.rows, a.columns), bounded(a.offset, a.rows, a.columns)), rows, 0.0);
    },
    [] {
      return std::vector<OpCase>{{"main", {normal_input({3})}, [](Inputs x) { return embed_diagonal(x[0], 3, 4); }},
                                 {"above, in a stack", {normal_input({2, 2})}, [](Inputs x) { return embed_diagonal(x[0], 3, 5, 3); }},
                                 {"below", {normal_input({2})}, [](Inputs x) { return embed_diagonal(x[0], 4, 2, -1); }},
                                 {"empty", {normal_input({0})}, [](Inputs x) { return embed_diagonal(x[0], 2, 2, -5); }}};
    });

}  // namespace

Tensor embed_slice(const Tensor& x, index_t axis, const Slice& slice, index_t size) { return apply(embed_slice_op, {&x}, EmbedAttributes{axis, slice, size}); }
Tensor pad(const Tensor& x, index_t axis, index_t before, index_t after) { return apply(pad_op, {&x}, PadAttributes{axis, before, after}); }
Tensor roll(const Tensor& x, index_t axis, index_t shift) { return apply(roll_op, {&x}, RollAttributes{axis, shift}); }
Tensor repeat(const Tensor& x, index_t axis, index_t count) { return apply(repeat_op, {&x}, RepeatAttributes{axis, count}); }
Tensor tril(const Tensor& x, index_t offset) { return apply(tril_op, {&x}, offset); }
Tensor triu(const Tensor& x, index_t offset) { return apply(triu_op, {&x}, offset); }
Tensor embed_diagonal(const Tensor& x, index_t rows, index_t columns, index_t offset) {
  return apply(embed_diagonal_op, {&x}, DiagonalAttributes{rows, columns, offset});
}

namespace {

Tensor join(const OpDef& op, std::span<const Tensor> parts, index_t axis) {
  std::vector<const Tensor*, PoolAllocator<const Tensor*>> inputs;
  for (const Tensor& part : parts) inputs.push_back(&part);
  return apply(op, inputs, &axis, sizeof axis);
}

}  // namespace

Tensor concat(std::span<const Tensor> parts, index_t axis) { return join(concat_op, parts, axis); }
Tensor stack(std::span<const Tensor> parts, index_t axis) { return join(stack_op, parts, axis); }

TensorList split(const Tensor& x, std::span<const index_t> sizes, index_t axis) {
  index_t total = 0;
  for (const index_t size : sizes) {
    if (size < 0) throw ValueError("split", cat("a part of size ", size), "give sizes of 0 or more");
    total += size;
  }
  if (total != x.size(axis)) throw ShapeError("split", cat("the sizes add up to ", total, ", axis ", axis, " of ", x.shape(), " is not that long"), "");
  TensorList parts;
  index_t at = 0;
  for (const index_t size : sizes) {
    parts.push_back(slice(x, axis, {at, at + size}));
    at += size;
  }
  return parts;
}

TensorList split(const Tensor& x, index_t parts, index_t axis) {
  const index_t size = x.size(axis);
  if (parts < 1 || size % parts != 0)
    throw ShapeError("split", cat("axis ", axis, " of ", x.shape(), " into ", parts, " parts"), "give a divisor, or the sizes");
  return split(x, std::vector<index_t, PoolAllocator<index_t>>(static_cast<std::size_t>(parts), size / parts), axis);
}

std::span<const OpDef* const> arrange_ops() {
  static const OpDef* const all[] = {&embed_slice_op, &embed_diagonal_op, &pad_op, &concat_op, &stack_op, &roll_op, &repeat_op, &tril_op, &triu_op};
  return all;
}

}  // namespace gradus
