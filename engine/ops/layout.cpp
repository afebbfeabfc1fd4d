// Views and joins.
#include "engine/ops/layout.hpp"

#include "engine/ops/define.hpp"

namespace gradus {
namespace {

using define::Inputs;

// A view op's shape rule makes the view, which costs nothing and raises every error; its forward makes it again.
template <Tensor (*make)(const Tensor&, const Run&)>
void declare_view(Run& r) {
  const Tensor v = make(r.in(0), r);
  r.declare(v.shape(), v.dtype());
}
template <Tensor (*make)(const Tensor&, const Run&)>
void run_view(Run& r) {
  r.out() = make(r.in(0), r);
}

template <Tensor (*make)(const Tensor&, const Run&)>
constexpr OpDef view_op(const char* name, const char* formula, const char* shapes, const char* law, void (*vjp)(Vjp&), std::vector<OpCase> (*cases)()) {
  return {.name = name,
          .family = "layout",
          .formula = formula,
          .shapes = shapes,
          .dtypes = "f32 f64 i64 bool",
          .law = law,
          .shape = declare_view<make>,
          .forward = run_view<make>,
          .vjp = vjp,
          .is_view = true,
          .cases = cases};
}

const OpDef reshape_op = view_op<[](const Tensor& x, const Run& r) { return view::reshape(x, r.attr<Shape>()); }>(
    "reshape", R"(y = \mathrm{reshape}(x))", "(...) -> any shape of as many elements", "a view where strides allow, else a copy",
    [](Vjp& b) { b.to(0, reshape(b.grad(), b.input_shape(0))); },
    [] {
      return std::vector<OpCase>{{"split and join",
                                  {normal_input({4, 6})},
                                  [](Inputs x) {
                                    return reshape(x[0], {2, 2, -1});
                                  }},
                                 {"to a vector", {normal_input({2, 3, 4})}, [](Inputs x) { return reshape(x[0], {-1}); }},
                                 {"scalar", {normal_input({1, 1})}, [](Inputs x) { return reshape(x[0], {}); }},
                                 {"empty", {normal_input({0, 3})}, [](Inputs x) {
                                    return reshape(x[0], {3, 0});
                                  }}};
    });

Dims inverse(const Dims& axes) {
  Dims result = axes;
  for (int i = 0; i < axes.rank(); ++i) result[normalize_axis(axes[i], axes.rank(), "permute")] = i;
  return result;
}

const OpDef permute_op = view_op<[](const Tensor& x, const Run& r) { return view::permute(x, r.attr<Dims>()); }>(
    "permute", R"(y_{i_{\pi(1)} \dots} = x_{i_1 \dots})", "(A, B, ...) -> its axes in a new order", "",
    [](Vjp& b) { b.to(0, permute(b.grad(), inverse(b.attr<Dims>()))); },
    [] {
      return std::vector<OpCase>{{"three axes",
                                  {normal_input({2, 3, 4})},
                                  [](Inputs x) {
                                    return permute(x[0], {2, 0, 1});
                                  }},
                                 {"transpose", {normal_input({3, 5})}, [](Inputs x) { return transpose(x[0]); }},
                                 {"empty", {normal_input({2, 0})}, [](Inputs x) {
                                    return permute(x[0], {1, 0});
                                  }}};
    });

const OpDef expand_op = view_op<[](const Tensor& x, const Run& r) { return view::expand(x, r.attr<Shape>()); }>(
    "expand", R"(y = \mathbf{1} \otimes x)", "(..., 1, ...) -> (..., N, ...)", "", [](Vjp& b) { b.to(0, b.grad()); },
    [] {
      return std::vector<OpCase>{{"rows",
                                  {normal_input({1, 4})},
                                  [](Inputs x) {
                                    return expand(x[0], {3, 4});
                                  }},
                                 {"new axes",
                                  {normal_input({3, 1})},
                                  [](Inputs x) {
                                    return expand(x[0], {2, -1, 5});
                                  }},
                                 {"scalar",
                                  {normal_input({})},
                                  [](Inputs x) {
                                    return expand(x[0], {2, 2});
                                  }},
                                 {"to nothing", {normal_input({1})}, [](Inputs x) { return expand(x[0], {0}); }},
                                 {"empty", {normal_input({0, 1})}, [](Inputs x) {
                                    return expand(x[0], {0, 3});
                                  }}};
    });

struct SliceAttributes {
  index_t axis;
  Slice slice;
  index_t size;  // of the full axis; embed_slice only
};

const OpDef slice_op = view_op<[](const Tensor& x, const Run& r) { return view::slice(x, r.attr<SliceAttributes>().axis, r.attr<SliceAttributes>().slice); }>(
    "slice", R"(y_i = x_{s + i t})", "(..., N, ...) -> (..., n, ...)", "bounds clamp as in Python; a step of 0 is an error",
    [](Vjp& b) {
      const auto& a = b.attr<SliceAttributes>();
      const int axis = normalize_axis(a.axis, b.input_shape(0).rank(), "slice");
      b.to(0, embed_slice(b.grad(), axis, a.slice, b.input_shape(0)[axis]));
    },
    [] {
      return std::vector<OpCase>{{"middle",
                                  {normal_input({3, 7})},
                                  [](Inputs x) {
                                    return slice(x[0], 1, {2, 5});
                                  }},
                                 {"step 2",
                                  {normal_input({8, 2})},
                                  [](Inputs x) {
                                    return slice(x[0], 0, {1, Slice::none, 2});
                                  }},
                                 {"negative bounds",
                                  {normal_input({7})},
                                  [](Inputs x) {
                                    return slice(x[0], 0, {-4, -1});
                                  }},
                                 {"backwards",
                                  {normal_input({7, 2})},
                                  [](Inputs x) {
                                    return slice(x[0], 0, {Slice::none, Slice::none, -3});
                                  }},
                                 {"flip", {normal_input({2, 5})}, [](Inputs x) { return flip(x[0], -1); }},
                                 {"select", {normal_input({3, 4})}, [](Inputs x) { return select(x[0], 0, -2); }},
                                 {"nothing left",
                                  {normal_input({4})},
                                  [](Inputs x) {
                                    return slice(x[0], 0, {3, 1});
                                  }},
                                 {"empty", {normal_input({0, 2})}, [](Inputs x) {
                                    return slice(x[0], 0, {0, 1});
                                  }}};
    });

const OpDef embed_slice_op = {
    .name = "embed_slice",
    .family = "layout",
    .formula = R"(y_{s + i t} = x_i, \text{ else } 0)",
    .shapes = "(..., n, ...) -> (..., N, ...)",
    .dtypes = "f32 f64 i64 bool",
    .shape =
        [](Run& r) {
          const auto& a = r.attr<SliceAttributes>();
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
          const auto& a = r.attr<SliceAttributes>();
          copy_into(r.out(), Tensor::scalar(0, r.out().dtype()));
          Tensor place = view::slice(r.out(), a.axis, a.slice);
          copy_into(place, r.in(0));
        },
    .vjp = [](Vjp& b) { b.to(0, slice(b.grad(), b.attr<SliceAttributes>().axis, b.attr<SliceAttributes>().slice)); },
    .cases =
        [] {
          return std::vector<OpCase>{{"step 2",
                                      {normal_input({3, 2})},
                                      [](Inputs x) {
                                        return embed_slice(x[0], 0, {1, Slice::none, 2}, 7);
                                      }},
                                     {"pad", {normal_input({2, 3})}, [](Inputs x) { return pad(x[0], 1, 2, 1); }},
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
                                     {"stack", {normal_input({2, 3}), normal_input({2, 3})}, [](Inputs x) { return stack(x, 1); }},
                                     {"empty", {normal_input({0, 3}), normal_input({2, 3})}, [](Inputs x) { return concat(x); }}};
        },
};

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) { return apply(reshape_op, {&x}, shape); }
Tensor permute(const Tensor& x, const Dims& axes) { return apply(permute_op, {&x}, axes); }

Tensor transpose(const Tensor& x, index_t a, index_t b) {
  Dims axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  std::swap(axes[normalize_axis(a, x.rank(), "transpose")], axes[normalize_axis(b, x.rank(), "transpose")]);
  return permute(x, axes);
}

Tensor expand(const Tensor& x, const Shape& shape) { return apply(expand_op, {&x}, shape); }

Tensor unsqueeze(const Tensor& x, index_t axis) {
  Shape shape = x.shape();
  shape.insert(normalize_axis(axis, x.rank() + 1, "unsqueeze"), 1);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, index_t axis) {
  Shape shape = view::squeeze(x.detached(), axis).shape();
  return reshape(x, shape);
}

Tensor slice(const Tensor& x, index_t axis, const Slice& slice) { return apply(slice_op, {&x}, SliceAttributes{axis, slice, 0}); }

Tensor select(const Tensor& x, index_t axis, index_t index) {
  (void)view::select(x.detached(), axis, index);  // raises its errors
  const index_t i = index < 0 ? index + x.size(axis) : index;
  return squeeze(slice(x, axis, {i, i + 1}), axis);
}

Tensor flip(const Tensor& x, index_t axis) { return slice(x, axis, {Slice::none, Slice::none, -1}); }

Tensor embed_slice(const Tensor& x, index_t axis, const Slice& slice, index_t size) { return apply(embed_slice_op, {&x}, SliceAttributes{axis, slice, size}); }

Tensor pad(const Tensor& x, index_t axis, index_t before, index_t after) {
  if (before < 0 || after < 0) throw ValueError("pad", cat("padding of ", before, " and ", after), "use slice to remove elements");
  const index_t size = x.size(axis);
  return embed_slice(x, axis, {before, before + size}, before + size + after);
}

Tensor concat(std::span<const Tensor> parts, index_t axis) {
  std::vector<const Tensor*, PoolAllocator<const Tensor*>> inputs;
  for (const Tensor& part : parts) inputs.push_back(&part);
  return apply(concat_op, inputs, &axis, sizeof axis);
}

Tensor stack(std::span<const Tensor> parts, index_t axis) {
  std::vector<Tensor, PoolAllocator<Tensor>> wider;
  for (const Tensor& part : parts) {
    if (part.shape() != parts[0].shape()) throw ShapeError("stack", cat("shapes ", parts[0].shape(), " and ", part.shape()), "all must agree");
    wider.push_back(unsqueeze(part, axis));
  }
  return concat(wider, axis);
}

std::span<const OpDef* const> layout_ops() {
  static const OpDef* const all[] = {&reshape_op, &permute_op, &expand_op, &slice_op, &embed_slice_op, &concat_op};
  return all;
}

}  // namespace gradus
