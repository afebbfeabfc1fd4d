// Views.
#include "engine/ops/layout.hpp"

#include <algorithm>

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
                                 {"transpose",
                                  {normal_input({3, 5})},
                                  [](Inputs x) {
                                    return permute(x[0], {-1, 0});
                                  }},
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
                                 {"nothing left",
                                  {normal_input({4})},
                                  [](Inputs x) {
                                    return slice(x[0], 0, {3, 1});
                                  }},
                                 {"empty", {normal_input({0, 2})}, [](Inputs x) {
                                    return slice(x[0], 0, {0, 1});
                                  }}};
    });

const OpDef squeeze_op = view_op<[](const Tensor& x, const Run& r) { return view::squeeze(x, r.attr<index_t>()); }>(
    "squeeze", R"(y = \mathrm{reshape}(x))", "(..., 1, ...) -> (..., ...)", "another size than 1 is an error",
    [](Vjp& b) { b.to(0, unsqueeze(b.grad(), normalize_axis(b.attr<index_t>(), b.input_shape(0).rank(), "squeeze"))); },
    [] {
      return std::vector<OpCase>{{"first", {normal_input({1, 4})}, [](Inputs x) { return squeeze(x[0], 0); }},
                                 {"last", {normal_input({3, 1})}, [](Inputs x) { return squeeze(x[0], -1); }},
                                 {"to a scalar", {normal_input({1})}, [](Inputs x) { return squeeze(x[0], 0); }},
                                 {"empty", {normal_input({0, 1})}, [](Inputs x) { return squeeze(x[0], 1); }}};
    });

const OpDef unsqueeze_op = view_op<[](const Tensor& x, const Run& r) { return view::unsqueeze(x, r.attr<index_t>()); }>(
    "unsqueeze", R"(y = \mathrm{reshape}(x))", "(..., ...) -> (..., 1, ...)", "",
    [](Vjp& b) { b.to(0, squeeze(b.grad(), normalize_axis(b.attr<index_t>(), b.input_shape(0).rank() + 1, "unsqueeze"))); },
    [] {
      return std::vector<OpCase>{{"first", {normal_input({4})}, [](Inputs x) { return unsqueeze(x[0], 0); }},
                                 {"last", {normal_input({2, 3})}, [](Inputs x) { return unsqueeze(x[0], -1); }},
                                 {"scalar", {normal_input({})}, [](Inputs x) { return unsqueeze(x[0], 0); }},
                                 {"empty", {normal_input({0, 2})}, [](Inputs x) { return unsqueeze(x[0], 1); }}};
    });

struct AxisPair {
  index_t a, b;
};

const OpDef transpose_op = view_op<[](const Tensor& x, const Run& r) { return view::transpose(x, r.attr<AxisPair>().a, r.attr<AxisPair>().b); }>(
    "transpose", R"(y_{\dots j \dots i \dots} = x_{\dots i \dots j \dots})", "(..., A, ..., B, ...) -> (..., B, ..., A, ...)", "",
    [](Vjp& b) { b.to(0, transpose(b.grad(), b.attr<AxisPair>().a, b.attr<AxisPair>().b)); },
    [] {
      return std::vector<OpCase>{{"last two", {normal_input({2, 3, 5})}, [](Inputs x) { return transpose(x[0]); }},
                                 {"first and last", {normal_input({2, 3, 4})}, [](Inputs x) { return transpose(x[0], 0, -1); }},
                                 {"an axis with itself", {normal_input({3})}, [](Inputs x) { return transpose(x[0], 0, 0); }},
                                 {"empty", {normal_input({0, 2})}, [](Inputs x) { return transpose(x[0]); }}};
    });

struct SelectAttributes {
  index_t axis, index;
};

const OpDef select_op =
    view_op<[](const Tensor& x, const Run& r) { return view::select(x, r.attr<SelectAttributes>().axis, r.attr<SelectAttributes>().index); }>(
        "select", R"(y = x_{\dots i \dots})", "(..., N, ...) -> (..., ...)", "a negative index counts from the end; outside the axis it is an error",
        [](Vjp& b) {
          const auto& a = b.attr<SelectAttributes>();
          const int axis = normalize_axis(a.axis, b.input_shape(0).rank(), "select");
          const index_t size = b.input_shape(0)[axis], i = a.index < 0 ? a.index + size : a.index;
          b.to(0, embed_slice(unsqueeze(b.grad(), axis), axis, {i, i + 1}, size));
        },
        [] {
          return std::vector<OpCase>{{"row, from the end", {normal_input({3, 4})}, [](Inputs x) { return select(x[0], 0, -2); }},
                                     {"column", {normal_input({3, 4})}, [](Inputs x) { return select(x[0], -1, 3); }},
                                     {"of a vector", {normal_input({5})}, [](Inputs x) { return select(x[0], 0, 1); }},
                                     {"empty", {normal_input({2, 0})}, [](Inputs x) { return select(x[0], 0, 1); }}};
        });

const OpDef flip_op = view_op<[](const Tensor& x, const Run& r) {
  return view::slice(x, r.attr<index_t>(), {Slice::none, Slice::none, -1});
}>(
    "flip", R"(y_i = x_{N - 1 - i})", "(..., N, ...) -> (..., N, ...)", "", [](Vjp& b) { b.to(0, flip(b.grad(), b.attr<index_t>())); },
    [] {
      return std::vector<OpCase>{{"last", {normal_input({2, 5})}, [](Inputs x) { return flip(x[0], -1); }},
                                 {"first", {normal_input({4, 3})}, [](Inputs x) { return flip(x[0], 0); }},
                                 {"middle", {normal_input({2, 3, 2})}, [](Inputs x) { return flip(x[0], 1); }},
                                 {"empty", {normal_input({0, 2})}, [](Inputs x) { return flip(x[0], 0); }}};
    });

Tensor diagonal_view(const Tensor& x, index_t offset) {
  if (x.rank() < 2) throw ShapeError("diagonal", cat("x has shape ", x.shape()), "give a matrix, or a stack of them");
  Shape shape = x.shape();
  Strides strides = x.strides();
  const int row = x.rank() - 2, column = x.rank() - 1;
  const index_t right = std::clamp(offset, -shape[row], shape[column]), down = right < 0 ? -right : 0;
  const index_t count = std::min(shape[row] - down, shape[column] - (down > 0 ? 0 : right));
  const index_t start = down > 0 ? down * strides[row] : right * strides[column];
  shape.erase(column);
  shape[row] = count;
  const index_t step = strides[row] + strides[column];
  strides.erase(column);
  strides[row] = step;
  return Tensor::view_of(x.buffer(), shape, strides, x.offset() + (count > 0 ? start : 0), x.dtype());
}

const OpDef diagonal_op = view_op<[](const Tensor& x, const Run& r) { return diagonal_view(x, r.attr<index_t>()); }>(
    "diagonal", R"(y_i = x_{i, i + d})", "(..., M, N) -> (..., K)", "beyond the corners: empty",
    [](Vjp& b) {
      const Shape shape = b.input_shape(0);
      b.to(0, embed_diagonal(b.grad(), shape[shape.rank() - 2], shape.back(), b.attr<index_t>()));
    },
    [] {
      return std::vector<OpCase>{{"main", {normal_input({3, 4})}, [](Inputs x) { return diagonal(x[0]); }},
                                 {"above, in a stack", {normal_input({2, 3, 5})}, [](Inputs x) { return diagonal(x[0], 3); }},
                                 {"below", {normal_input({4, 2})}, [](Inputs x) { return diagonal(x[0], -1); }},
                                 {"beyond the corner", {normal_input({2, 2})}, [](Inputs x) { return diagonal(x[0], 5); }},
                                 {"empty", {normal_input({0, 3})}, [](Inputs x) { return diagonal(x[0]); }}};
    });

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) { return apply(reshape_op, {&x}, shape); }
Tensor permute(const Tensor& x, const Dims& axes) { return apply(permute_op, {&x}, axes); }

Tensor transpose(const Tensor& x, index_t a, index_t b) { return apply(transpose_op, {&x}, AxisPair{a, b}); }
Tensor expand(const Tensor& x, const Shape& shape) { return apply(expand_op, {&x}, shape); }
Tensor squeeze(const Tensor& x, index_t axis) { return apply(squeeze_op, {&x}, axis); }
Tensor unsqueeze(const Tensor& x, index_t axis) { return apply(unsqueeze_op, {&x}, axis); }
Tensor slice(const Tensor& x, index_t axis, const Slice& slice) { return apply(slice_op, {&x}, SliceAttributes{axis, slice}); }
Tensor select(const Tensor& x, index_t axis, index_t index) { return apply(select_op, {&x}, SelectAttributes{axis, index}); }
Tensor flip(const Tensor& x, index_t axis) { return apply(flip_op, {&x}, axis); }
Tensor diagonal(const Tensor& x, index_t offset) { return apply(diagonal_op, {&x}, offset); }

std::span<const OpDef* const> layout_ops() {
  static const OpDef* const all[] = {&reshape_op,   &permute_op, &transpose_op, &expand_op, &squeeze_op,
                                     &unsqueeze_op, &slice_op,   &select_op,    &flip_op,   &diagonal_op};
  return all;
}

}  // namespace gradus
