// Properties on random shapes, strides and options: linear ops have the right adjoint, gradients add, sorted is sorted.
#include <rapidcheck.h>

#include "engine/ops/attention.hpp"
#include "engine/ops/conv.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/linear.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/ops/scan.hpp"
#include "engine/ops/sort.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

index_t pick(index_t low, index_t high) { return *rc::gen::inRange(low, high + 1); }

std::uint64_t seed() { return static_cast<std::uint64_t>(pick(1, 1000000)); }

Shape random_shape(int lowest_rank, index_t smallest) {
  Shape shape;
  const auto rank = static_cast<int>(pick(lowest_rank, 4));
  for (int i = 0; i < rank; ++i) shape.push_back(pick(smallest, 4));
  return shape;
}

// Numbers of a shape whose strides are those of some permuted, stepped or reversed view of a larger buffer.
Tensor random_tensor(const Shape& shape) {
  Dims order;
  for (int i = 0; i < shape.rank(); ++i) order.insert(static_cast<int>(pick(0, i)), i);
  Shape stored;
  for (int i = 0; i < shape.rank(); ++i) stored.push_back(shape[static_cast<int>(order[i])] * 2 + 1);
  Tensor t = random_normal(stored, DType::f64, seed());
  for (int i = 0; i < shape.rank(); ++i) {
    const index_t size = shape[static_cast<int>(order[i])], step = pick(1, 2);
    const index_t start = pick(0, step * size > 0 ? 2 * size - step * (size - 1) : 0);
    t = view::slice(t, i, {start, start + step * size, step});
    if (pick(0, 1) == 1) t = view::slice(t, i, {Slice::none, Slice::none, -1});
  }
  Dims back = order;
  for (int i = 0; i < order.rank(); ++i) back[static_cast<int>(order[i])] = i;
  return view::permute(t, back);
}

Tensor random_index(const Shape& shape, index_t below) {
  return cast(floor(random_uniform(shape, DType::f64, 0, static_cast<double>(below), seed())), DType::i64);
}

// A linear map with its options drawn, on an input whose shape it may ask something of.
struct LinearMap {
  const char* name;
  int lowest_rank;
  index_t smallest;  // size of an axis
  std::function<Tensor(const Tensor&)> (*draw)(const Shape&);
};
using Map = std::function<Tensor(const Tensor&)>;

index_t axis_of(const Shape& s) { return pick(-s.rank(), s.rank() - 1); }
index_t size_of(const Shape& s, index_t axis) { return s[normalize_axis(axis, s.rank(), "test")]; }
Slice random_slice() {
  const index_t step = pick(1, 3);
  return {pick(-5, 5), pick(-5, 5), pick(0, 1) == 1 ? step : -step};
}
ReduceOptions random_axes(const Shape& s) {
  ReduceOptions options{.keep = pick(0, 1) == 1};
  for (int i = 0; i < s.rank(); ++i)
    if (pick(0, 1) == 1) options.axes.push_back(i);
  return options;
}
ScanOptions random_scan(const Shape& s) { return {.axis = axis_of(s), .reverse = pick(0, 1) == 1}; }

const LinearMap reductions[] = {
    {"sum", 0, 0, [](const Shape& s) -> Map { return [o = random_axes(s)](const Tensor& x) { return sum(x, o); }; }},
    {"mean", 0, 1, [](const Shape& s) -> Map { return [o = random_axes(s)](const Tensor& x) { return mean(x, o); }; }},
    {"sum_to_shape", 0, 0,
     [](const Shape& s) -> Map {
       Shape target = s;
       for (int i = 0; i < s.rank(); ++i) target[i] = pick(0, 1) == 1 ? 1 : s[i];
       return [target](const Tensor& x) { return sum_to_shape(x, target); };
     }},
    {"cumsum", 1, 0, [](const Shape& s) -> Map { return [o = random_scan(s)](const Tensor& x) { return cumsum(x, o); }; }},
    {"linear_scan in b", 1, 0,
     [](const Shape& s) -> Map { return [a = random_tensor(s), o = random_scan(s)](const Tensor& x) { return linear_scan(a, x, o); }; }},
};

const LinearMap views[] = {
    {"reshape", 0, 1, [](const Shape&) -> Map { return [](const Tensor& x) {
                                                  return reshape(x, {-1, 1});
                                                }; }},
    {"permute", 0, 0,
     [](const Shape& s) -> Map {
       Dims order;
       for (int i = 0; i < s.rank(); ++i) order.insert(static_cast<int>(pick(0, i)), i);
       return [order](const Tensor& x) { return permute(x, order); };
     }},
    {"transpose", 1, 0, [](const Shape& s) -> Map { return [a = axis_of(s), b = axis_of(s)](const Tensor& x) { return transpose(x, a, b); }; }},
    {"unsqueeze, expand", 0, 0,
     [](const Shape& s) -> Map {
       const auto axis = static_cast<int>(pick(0, s.rank()));
       Shape wide = s;
       wide.insert(axis, pick(0, 3));
       return [axis, wide](const Tensor& x) { return expand(unsqueeze(x, axis), wide); };
     }},
    {"squeeze of a slice", 1, 1,
     [](const Shape& s) -> Map {
       const index_t axis = axis_of(s), at = pick(0, size_of(s, axis) - 1);
       return [axis, at](const Tensor& x) { return squeeze(slice(x, axis, {at, at + 1}), axis); };
     }},
    {"slice", 1, 0, [](const Shape& s) -> Map { return [axis = axis_of(s), cut = random_slice()](const Tensor& x) { return slice(x, axis, cut); }; }},
    {"select", 1, 1,
     [](const Shape& s) -> Map {
       const index_t axis = axis_of(s), size = size_of(s, axis);
       return [axis, i = pick(-size, size - 1)](const Tensor& x) { return select(x, axis, i); };
     }},
    {"flip", 1, 0, [](const Shape& s) -> Map { return [axis = axis_of(s)](const Tensor& x) { return flip(x, axis); }; }},
    {"diagonal", 2, 0, [](const Shape&) -> Map { return [d = pick(-5, 5)](const Tensor& x) { return diagonal(x, d); }; }},
    {"split", 1, 1, [](const Shape& s) -> Map {
       const index_t axis = axis_of(s), size = size_of(s, axis);
       return [axis, size, part = pick(0, size - 1)](const Tensor& x) { return split(x, size, axis)[static_cast<std::size_t>(part)]; };
     }}};

const LinearMap arrangements[] = {
    {"pad", 1, 0, [](const Shape& s) -> Map { return [axis = axis_of(s), b = pick(0, 2), a = pick(0, 2)](const Tensor& x) { return pad(x, axis, b, a); }; }},
    {"embed_slice", 1, 0,
     [](const Shape& s) -> Map {
       const index_t axis = axis_of(s), n = size_of(s, axis), step = pick(1, 3), start = pick(0, 2);
       return [=](const Tensor& x) { return embed_slice(x, axis, {start, start + n * step, step}, start + n * step); };
     }},
    {"embed_diagonal", 1, 0,
     [](const Shape& s) -> Map {
       const index_t d = pick(-3, 3), n = s.back();
       return [=](const Tensor& x) { return embed_diagonal(x, n - std::min<index_t>(d, 0), n + std::max<index_t>(d, 0), d); };
     }},
    {"concat", 1, 0,
     [](const Shape& s) -> Map { return [axis = axis_of(s)](const Tensor& x) {
                                   return concat(std::vector<Tensor>{x, 2.0 * x, flip(x, axis)}, axis);
                                 }; }},
    {"stack", 0, 0, [](const Shape& s) -> Map { return [axis = pick(0, s.rank())](const Tensor& x) {
                                                  return stack(std::vector<Tensor>{x, -x}, axis);
                                                }; }},
    {"roll", 1, 0, [](const Shape& s) -> Map { return [axis = axis_of(s), by = pick(-9, 9)](const Tensor& x) { return roll(x, axis, by); }; }},
    {"repeat", 1, 0, [](const Shape& s) -> Map { return [axis = axis_of(s), count = pick(0, 3)](const Tensor& x) { return repeat(x, axis, count); }; }},
    {"tril", 2, 0, [](const Shape&) -> Map { return [d = pick(-5, 5)](const Tensor& x) { return tril(x, d); }; }},
    {"triu", 2, 0, [](const Shape&) -> Map { return [d = pick(-5, 5)](const Tensor& x) { return triu(x, d); }; }},
    {"where", 0, 0, [](const Shape& s) -> Map { return [c = greater(random_tensor(s), 0.0)](const Tensor& x) { return where(c, x, 3.0 * x); }; }},
};

const LinearMap gathers[] = {
    {"gather", 1, 1,
     [](const Shape& s) -> Map {
       const index_t axis = axis_of(s);
       Shape places = s;
       places[normalize_axis(axis, s.rank(), "test")] = pick(0, 5);
       return [axis, index = random_index(places, size_of(s, axis))](const Tensor& x) { return gather(x, axis, index); };
     }},
    {"index_select", 1, 1,
     [](const Shape& s) -> Map {
       const index_t axis = axis_of(s);
       return [axis, index = random_index({pick(0, 5)}, size_of(s, axis))](const Tensor& x) { return index_select(x, axis, index); };
     }},
    {"embedding", 2, 1,
     [](const Shape& s) -> Map {
       return [index = random_index(random_shape(0, 0), s[0])](const Tensor& x) { return embedding(reshape(x, {x.size(0), -1}), index); };
     }},
    {"scatter_add of the source", 1, 0,
     [](const Shape& s) -> Map {
       const index_t axis = axis_of(s);
       Shape room = s;
       const index_t size = room[normalize_axis(axis, s.rank(), "test")] = pick(1, 5);
       return [axis, room, index = random_index(s, size)](const Tensor& x) { return scatter_add(zeros(room, DType::f64), axis, index, x); };
     }},
    {"scatter_add of the base", 1, 1,
     [](const Shape& s) -> Map {
       const index_t axis = axis_of(s);
       return [axis, index = random_index(s, size_of(s, axis))](const Tensor& x) { return scatter_add(x, axis, index, Tensor::zeros(x.shape(), DType::f64)); };
     }},
};

const LinearMap products[] = {
    {"matmul from the left", 2, 1,
     [](const Shape& s) -> Map {
       Shape right = s;
       if (right.rank() > 2 && pick(0, 1) == 1) right[0] = 1;
       right[s.rank() - 2] = s.back();
       right[s.rank() - 1] = pick(1, 4);
       return [b = random_tensor(right)](const Tensor& x) { return matmul(x, b); };
     }},
    {"matmul from the right", 2, 1,
     [](const Shape& s) -> Map {
       return [a = random_tensor({pick(1, 3), 1, pick(1, 4), s[s.rank() - 2]})](const Tensor& x) { return matmul(x.rank() == 4 ? select(a, 0, 0) : a, x); };
     }},
    {"linear", 1, 1,
     [](const Shape& s) -> Map {
       return [w = random_tensor({pick(1, 4), s.back()})](const Tensor& x) { return linear(x, w); };
     }},
    {"einsum", 2, 1,
     [](const Shape& s) -> Map {
       return [b = random_tensor({s[s.rank() - 2], pick(1, 3)})](const Tensor& x) { return einsum("...ij,ik->k...j", x, b); };
     }},
    {"conv2d in the image", 4, 2,
     [](const Shape& s) -> Map {
       const Conv2dOptions options{.stride = {pick(1, 2), pick(1, 2)}, .padding = {pick(0, 2), pick(0, 2)}};
       return [w = random_tensor({pick(1, 3), s[1], 2, pick(1, 2)}), options](const Tensor& x) { return conv2d(x, w, options); };
     }},
    {"conv2d in the kernel", 4, 1,
     [](const Shape& s) -> Map {
       return [image = random_tensor({pick(1, 2), s[1], 5, 4}), by = pick(1, 2)](const Tensor& x) { return conv2d(image, x, {.stride = by, .padding = 1}); };
     }},
    {"conv_transpose2d", 4, 1,
     [](const Shape& s) -> Map {
       return [w = random_tensor({s[1], pick(1, 3), 3, 2}), by = pick(1, 3)](const Tensor& x) {
         return conv_transpose2d(x, w, {.stride = by, .padding = {1, 0}});
       };
     }},
    {"avg_pool2d", 4, 2,
     [](const Shape&) -> Map {
       return
           [pad = pick(0, 1), count = pick(0, 1) == 1](const Tensor& x) { return avg_pool2d(x, 2, {.stride = 1, .padding = pad, .count_include_pad = count}); };
     }},
};

double inner(const Tensor& a, const Tensor& b) { return sum(a * b).item(); }

// <A x, y> == <x, A' y>, with A' what backward does.
void check_adjoint(const LinearMap& map) {
  INFO(map.name);
  CHECK(rc::check([&] {
    const Shape shape = random_shape(map.lowest_rank, map.smallest);
    const Tensor x = random_tensor(shape);
    const Map f = map.draw(shape);
    const Tensor image = f(x), y = random_tensor(image.shape());
    const Tensor back = gradient(f, random_tensor(shape), y);  // wherever it is taken
    RC_ASSERT(back.shape() == shape);
    const double left = inner(image, y), right = inner(x, back);
    RC_ASSERT(std::fabs(left - right) <= 1e-12 * (1 + inner(abs(image), abs(y))));
  }));
}

}  // namespace

TEST_CASE("linear_reductions_and_scans_have_their_adjoint_as_gradient", "[property]") {
  for (const LinearMap& map : reductions) check_adjoint(map);
}
TEST_CASE("views_have_their_adjoint_as_gradient", "[property]") {
  for (const LinearMap& map : views) check_adjoint(map);
}
TEST_CASE("arrangements_have_their_adjoint_as_gradient", "[property]") {
  for (const LinearMap& map : arrangements) check_adjoint(map);
}
TEST_CASE("gathers_and_scatters_have_their_adjoint_as_gradient", "[property]") {
  for (const LinearMap& map : gathers) check_adjoint(map);
}

TEST_CASE("products_have_their_adjoint_as_gradient", "[property]") {
  for (const LinearMap& map : products) check_adjoint(map);
}

TEST_CASE("a_temperature_scales_the_scores_on_any_shape", "[property]") {
  CHECK(rc::check([] {
    const Shape shape = random_shape(1, 1);
    const Tensor x = random_tensor(shape), y = random_tensor(shape);
    const index_t axis = axis_of(shape);
    const double beta = std::exp(static_cast<double>(pick(-4, 4)));
    const auto with_beta = [&](const Tensor& t) { return softmax(t, {.axis = axis, .inverse_temperature = beta}); };
    const auto scaled = [&](const Tensor& t) { return softmax(beta * t, {.axis = axis}); };
    RC_ASSERT(all_close(with_beta(x), scaled(x), 1e-13, 1e-15));
    RC_ASSERT(all_close(gradient(with_beta, x, y), gradient(scaled, x, y), 1e-12, 1e-13 * (1 + beta)));
  }));
}

TEST_CASE("masked_attention_is_attention_over_the_kept_keys_on_any_shape", "[property]") {
  CHECK(rc::check([] {
    const Shape batch = random_shape(0, 1);
    const index_t heads = batch.rank() > 2 ? 1 : 2;  // (..., T, D) has at most four axes here
    const auto of = [&](index_t rows, index_t columns) {
      Shape s = batch.rank() > 2 ? Shape{batch[0], batch[1]} : batch;
      s.push_back(rows);
      s.push_back(columns);
      return random_tensor(s);
    };
    const index_t keys = pick(1, 9), width = 2 * pick(1, 3);
    const Tensor q = of(pick(1, 5), width), k = of(keys, width), v = of(keys, 2 * pick(1, 2));
    std::vector<index_t> kept;
    Tensor keep = Tensor::zeros({keys}, DType::f64);
    for (index_t i = 0; i < keys; ++i)
      if (pick(0, 2) > 0) kept.push_back(i);
    const Tensor index = Tensor::from(kept, {static_cast<index_t>(kept.size())});
    keep = scatter_add(keep, 0, index, Tensor::ones(index.shape(), DType::f64));
    AttentionSpec spec{.score = static_cast<Score>(pick(0, 2)), .heads = static_cast<int>(heads)};
    spec.map.kind = pick(0, 1) == 1 ? MapKind::softmax : MapKind::sparsemax;
    AttentionSpec masked = spec;
    masked.key_mask = greater(keep, 0.5);
    const auto full = [&](const Tensor& x) { return attention(q, k + x, v, masked); };
    const auto truncated = [&](const Tensor& x) { return attention(q, index_select(k + x, -2, index), index_select(v, -2, index), spec); };
    const Tensor zero = Tensor::zeros(k.shape(), DType::f64);
    RC_ASSERT(all_close(full(zero), truncated(zero), 1e-12, 1e-13));
    const Tensor y = random_tensor(full(zero).shape());
    RC_ASSERT(all_close(gradient(full, zero, y), gradient(truncated, zero, y), 1e-11, 1e-12));
  }));
}

TEST_CASE("the_gradient_of_a_sum_is_the_sum_of_gradients_on_any_shape", "[property]") {
  CHECK(rc::check([] {
    const Shape shape = random_shape(1, 1);
    const Tensor x = random_tensor(shape);
    const ReduceOptions axes = random_axes(shape);
    const auto f = [&](const Tensor& t) { return prod(t, axes) * norm(t, 2, axes); };
    const auto g = [&](const Tensor& t) { return max(t, axes) + stddev(t, axes); };
    const Tensor y = random_normal(f(x).shape(), DType::f64, seed());
    RC_ASSERT(all_close(gradient([&](const Tensor& t) { return f(t) + g(t); }, x, y), gradient(f, x, y) + gradient(g, x, y), 1e-12, 1e-12));
  }));
}

TEST_CASE("sorting_permutes_and_orders", "[property]") {
  CHECK(rc::check([] {
    const Shape shape = random_shape(1, 1);
    const index_t axis = axis_of(shape), size = size_of(shape, axis), k = pick(0, size);
    // Few distinct numbers, so that there are ties.
    const Tensor x = round(random_tensor(shape));
    const Tensor up = sort(x, {.axis = axis}), order = argsort(x, {.axis = axis});
    RC_ASSERT(all(less_equal(slice(up, axis, {0, size - 1}), slice(up, axis, {1}))).item() == 1);
    RC_ASSERT(equal(gather(x, axis, order), up));
    RC_ASSERT(equal(sort(order, {.axis = axis}), argsort(Tensor::zeros(shape), {.axis = axis})));
    const Topk top = topk(x, k, {.axis = axis});
    RC_ASSERT(equal(top.values, slice(sort(x, {.axis = axis, .descending = true}), axis, {0, k})));
    RC_ASSERT(equal(top.indices, slice(argsort(x, {.axis = axis, .descending = true}), axis, {0, k})));
  }));
}
