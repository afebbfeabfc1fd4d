// Gathering and scattering by index tensors.
#include "engine/ops/define.hpp"
#include "engine/ops/layout.hpp"
#include "engine/tensor/strided.hpp"

namespace gradus {
namespace {

using define::Inputs;

// Everything about one gather or scatter: `index` walks its own elements; `data` is indexed along `axis`.
struct Places {
  Places(const char* op, const Tensor& data, const Tensor& positions, index_t axis_argument)
      : index(contiguous(positions)), axis(normalize_axis(axis_argument, data.rank(), op)), size(data.shape()[axis]) {}

  void check(const char* op) const {
    const std::int64_t* at = index.data<std::int64_t>();
    for (index_t i = 0; i < index.numel(); ++i)
      if (at[i] < 0 || at[i] >= size)
        throw IndexError(op, cat("index ", at[i], " is out of range for axis ", axis, " of size ", size), "indices go from 0 to size - 1");
  }

  // Calls f(i, offset of element i in `data`) for every element i of the index, in row-major order.
  template <class F>
  void for_each(const Tensor& data, F&& f) const {
    Strides strides = data.strides();
    strides[axis] = 0;
    const index_t step = data.strides()[axis];
    const std::int64_t* at = index.data<std::int64_t>();
    const StridedLoop<1> loop(index.shape(), {strides});
    index_t i = 0;
    for (index_t r = 0; r < loop.runs(); ++r) {
      const index_t start = loop.start(r)[0];
      for (index_t j = 0; j < loop.run(); ++j, ++i) f(i, start + j * loop.step(0) + at[i] * step);
    }
  }

  Tensor index;
  int axis;
  index_t size;
};

void check_index_shape(Run& r, int index, const Shape& data) {
  define::require_dtype(r, index, DType::i64);
  const Shape& shape = r.in(index).shape();
  const int axis = normalize_axis(r.attr<index_t>(), data.rank(), r.name());
  bool fits = shape.rank() == data.rank();
  for (int i = 0; fits && i < data.rank(); ++i) fits = i == axis || shape[i] <= data[i];
  if (!fits) throw ShapeError(r.name(), cat("index has shape ", shape, ", data ", data, ", axis ", axis), "ranks agree and only the axis may be longer");
}

const OpDef gather_op = {
    .name = "gather",
    .family = "indexing",
    .formula = R"(y_{i j k} = x_{i\, \mathrm{index}_{ijk}\, k})",
    .shapes = "(..., N, ...), index (..., I, ...) -> (..., I, ...)",
    .dtypes = "f32 f64 i64 bool",
    .law = "an index out of range or negative is an error that names it",
    .shape =
        [](Run& r) {
          check_index_shape(r, 1, r.in(0).shape());
          Places("gather", r.in(0), r.in(1), r.attr<index_t>()).check("gather");
          r.declare(r.in(1).shape(), r.in(0).dtype());
        },
    .forward =
        [](Run& r) {
          const Places places("gather", r.in(0), r.in(1), r.attr<index_t>());
          visit_dtype(r.out().dtype(), [&](auto tag) {
            using T = decltype(tag);
            const T* from = r.in(0).data<T>();
            T* to = r.out().mutable_data<T>();
            places.for_each(r.in(0), [&](index_t i, index_t at) { to[i] = from[at]; });
          });
        },
    .vjp = [](Vjp& b) { b.to(0, scatter_add(zeros(b.input_shape(0), b.grad().dtype()), b.attr<index_t>(), b.input(1), b.grad())); },
    .saves = save::input(1),
    .hides_nan = true,
    .cases =
        [] {
          return std::vector<OpCase>{
              {"rows, repeated", {normal_input({4, 3}), integer_values({2, 3}, {0, 0, 3, 3, 0, 1})}, [](Inputs x) { return gather(x[0], 0, x[1]); }},
              {"last axis", {normal_input({2, 5}), integer_input({2, 7}, 5)}, [](Inputs x) { return gather(x[0], -1, x[1]); }},
              {"empty", {normal_input({3}), integer_input({0}, 3)}, [](Inputs x) { return gather(x[0], 0, x[1]); }}};
        },
};

const OpDef scatter_add_op = {
    .name = "scatter_add",
    .family = "indexing",
    .formula = R"(y = b;\ y_{i\, \mathrm{index}_{ijk}\, k} \mathrel{+}= x_{ijk})",
    .shapes = "(..., N, ...), index (..., I, ...), (..., I, ...) -> (..., N, ...)",
    .dtypes = "f32 f64 i64 bool",
    .law = "repeated places accumulate, in index order",
    .shape =
        [](Run& r) {
          define::require_same_dtype(r, 0, 2);
          check_index_shape(r, 1, r.in(0).shape());
          if (r.in(1).shape() != r.in(2).shape())
            throw ShapeError("scatter_add", cat("index ", r.in(1).shape(), ", source ", r.in(2).shape()), "one index for each source element");
          Places("scatter_add", r.in(0), r.in(1), r.attr<index_t>()).check("scatter_add");
          r.declare(r.in(0).shape(), r.in(0).dtype());
        },
    .forward =
        [](Run& r) {
          copy_into(r.out(), r.in(0));
          const Places places("scatter_add", r.out(), r.in(1), r.attr<index_t>());
          const Tensor source = contiguous(r.in(2));
          visit_dtype(r.out().dtype(), [&](auto tag) {
            using T = decltype(tag);
            const T* from = source.data<T>();
            T* to = r.out().mutable_data<T>();
            places.for_each(r.out(), [&](index_t i, index_t at) { to[at] = static_cast<T>(to[at] + from[i]); });
          });
        },
    .vjp =
        [](Vjp& b) {
          b.to(0, b.grad());
          if (b.needs(2)) b.to(2, gather(b.grad(), b.attr<index_t>(), b.input(1)));
        },
    .saves = save::input(1),
    .cases =
        [] {
          return std::vector<OpCase>{
              {"rows, repeated",
               {normal_input({4, 3}), integer_values({2, 3}, {0, 0, 3, 0, 1, 3}), normal_input({2, 3})},
               [](Inputs x) { return scatter_add(x[0], 0, x[1], x[2]); }},
              {"last axis", {normal_input({2, 5}), integer_input({2, 7}, 5), normal_input({2, 7})}, [](Inputs x) { return scatter_add(x[0], -1, x[1], x[2]); }},
              {"empty", {normal_input({3}), integer_input({0}, 3), normal_input({0})}, [](Inputs x) { return scatter_add(x[0], 0, x[1], x[2]); }}};
        },
};

// The index of index_select as gather wants it: constant over every axis but one.
Tensor spread(const Tensor& index, int axis, const Shape& like) {
  Shape shape = Dims::filled(like.rank(), 1), full = like;
  shape[axis] = full[axis] = index.numel();
  return view::expand(view::reshape(index.detached(), shape), full);
}

const OpDef index_select_op = {
    .name = "index_select",
    .family = "indexing",
    .formula = R"(y_{i} = x_{\mathrm{index}_i})",
    .shapes = "(..., N, ...), index (I) -> (..., I, ...)",
    .dtypes = "f32 f64 i64 bool",
    .law = "an index out of range or negative is an error that names it; repeated ones accumulate their gradients",
    .shape =
        [](Run& r) {
          define::require_dtype(r, 1, DType::i64);
          if (r.in(1).rank() != 1) throw ShapeError("index_select", cat("index has shape ", r.in(1).shape()), "give a vector of indices");
          Places("index_select", r.in(0), r.in(1), r.attr<index_t>()).check("index_select");
          Shape shape = r.in(0).shape();
          shape[normalize_axis(r.attr<index_t>(), shape.rank(), "index_select")] = r.in(1).numel();
          r.declare(shape, r.in(0).dtype());
        },
    .forward =
        [](Run& r) {
          const int axis = normalize_axis(r.attr<index_t>(), r.in(0).rank(), "index_select");
          const Tensor index = contiguous(r.in(1));
          const std::int64_t* at = index.data<std::int64_t>();
          for (index_t i = 0; i < index.numel(); ++i) {
            Tensor place = view::slice(r.out(), axis, {i, i + 1});
            copy_into(place, view::slice(r.in(0), axis, {at[i], at[i] + 1}));
          }
        },
    .vjp =
        [](Vjp& b) {
          const int axis = normalize_axis(b.attr<index_t>(), b.input_shape(0).rank(), "index_select");
          b.to(0, scatter_add(zeros(b.input_shape(0), b.grad().dtype()), axis, spread(b.input(1), axis, b.grad().shape()), b.grad()));
        },
    .saves = save::input(1),
    .hides_nan = true,
    .cases =
        [] {
          return std::vector<OpCase>{
              {"rows, repeated", {normal_input({4, 3}), integer_values({5}, {1, 1, 3, 0, 1})}, [](Inputs x) { return index_select(x[0], 0, x[1]); }},
              {"columns", {normal_input({2, 5}), integer_input({3}, 5)}, [](Inputs x) { return index_select(x[0], 1, x[1]); }},
              {"embedding", {normal_input({6, 4}), integer_input({2, 3}, 6)}, [](Inputs x) { return embedding(x[0], x[1]); }},
              {"empty", {normal_input({3, 2}), integer_input({0}, 3)}, [](Inputs x) { return index_select(x[0], 0, x[1]); }}};
        },
};

}  // namespace

Tensor gather(const Tensor& x, index_t axis, const Tensor& index) { return apply(gather_op, {&x, &index}, axis); }
Tensor scatter_add(const Tensor& base, index_t axis, const Tensor& index, const Tensor& source) {
  return apply(scatter_add_op, {&base, &index, &source}, axis);
}
Tensor index_select(const Tensor& x, index_t axis, const Tensor& index) { return apply(index_select_op, {&x, &index}, axis); }

Tensor embedding(const Tensor& table, const Tensor& index) {
  if (table.rank() != 2) throw ShapeError("embedding", cat("the table has shape ", table.shape()), "give (V, D)");
  Shape shape = index.shape();
  shape.push_back(table.shape()[1]);
  return reshape(index_select(table, 0, reshape(index, {index.numel()})), shape);
}

Tensor one_hot(const Tensor& index, index_t classes, DType dtype) {
  if (classes < 0) throw ValueError("one_hot", cat(classes, " classes"), "give 0 or more");
  const Tensor places = unsqueeze(index, -1);
  Shape shape = index.shape();
  shape.push_back(classes);
  return scatter_add(zeros(shape, dtype), -1, places, Tensor::ones(places.shape(), dtype));
}

std::span<const OpDef* const> indexing_ops() {
  static const OpDef* const all[] = {&gather_op, &scatter_add_op, &index_select_op};
  return all;
}

}  // namespace gradus
