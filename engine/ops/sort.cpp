#include "engine/ops/sort.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/ops/define.hpp"
#include "engine/ops/layout.hpp"

namespace gradus {
namespace {

using define::Inputs;

// A total order of the indices of a row, so that neither the algorithm nor its stability matters.
template <class T>
struct Before {
  const T* x;
  bool descending;

  static bool less(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return std::isnan(b) && !std::isnan(a);
    }
    return a < b;
  }
  bool operator()(index_t i, index_t j) const {
    const T a = descending ? x[j] : x[i], b = descending ? x[i] : x[j];
    return less(a, b) || (!less(b, a) && i < j);
  }
};

struct ArgsortAttributes {
  int axis;
  bool descending;
  index_t count;  // how many of the sorted indices are kept
};

// Rows of n elements of x; the first `count` indices of each in order.
template <class T>
void sort_rows(const T* x, index_t rows, index_t n, bool descending, index_t count, std::int64_t* to) {
  compute::parallel_rows(rows, n, [&](index_t first, index_t rows_here) {
    std::vector<index_t, PoolAllocator<index_t>> order(static_cast<std::size_t>(n));
    const auto end_of_kept = order.begin() + count;
    for (index_t row = first; row < first + rows_here; ++row) {
      std::iota(order.begin(), order.end(), index_t{0});
      const Before<T> before{x + row * n, descending};
      if (count == n) std::sort(order.begin(), order.end(), before);
      else std::partial_sort(order.begin(), end_of_kept, order.end(), before);
      std::copy(order.begin(), end_of_kept, to + row * count);
    }
  });
}

const OpDef argsort_op = {
    .name = "argsort",
    .family = "sort",
    .formula = R"(y = \pi,\ x_{\pi_1} \le x_{\pi_2} \le \dots)",
    .shapes = "(..., N, ...) -> (..., N, ...) i64",
    .dtypes = "f32 f64 i64",
    .law = "NaN is greatest; equal elements in the order of their indices, also when descending",
    .gradient = GradientKind::zero,
    .gradient_note = "an index has no derivative",
    .shape =
        [](Run& r) {
          if (r.in(0).dtype() == DType::boolean) throw DTypeError(r.name(), "not defined on bool", "cast first");
          const auto& a = r.attr<ArgsortAttributes>();
          Shape shape = r.in(0).shape();
          shape[a.axis] = a.count;
          r.declare(shape, DType::i64);
        },
    .forward =
        [](Run& r) {
          const auto& a = r.attr<ArgsortAttributes>();
          const int last = r.in(0).rank() - 1;
          const Tensor x = contiguous(view::transpose(r.in(0), a.axis, last));
          Tensor sorted = a.axis == last ? r.out() : Tensor::empty(view::transpose(r.out(), a.axis, last).shape(), DType::i64);
          if (sorted.numel() == 0) return;
          const index_t n = x.shape()[last];
          visit_dtype(x.dtype(), [&](auto tag) {
            using T = decltype(tag);
            if constexpr (!std::is_same_v<T, bool>) sort_rows(x.data<T>(), x.numel() / n, n, a.descending, a.count, sorted.mutable_data<std::int64_t>());
          });
          if (a.axis != last) copy_into(r.out(), view::transpose(sorted, a.axis, last));
        },
    .cases =
        [] {
          return std::vector<OpCase>{
              {"last axis", {normal_input({3, 67})}, [](Inputs x) { return argsort(x[0]); }},
              {"first axis, descending", {normal_input({5, 4})}, [](Inputs x) { return argsort(x[0], {.axis = 0, .descending = true}); }},
              {"ties", {value_input({6}, {1, 3, 3, 0, 0, 3})}, [](Inputs x) { return argsort(x[0], {.descending = true}); }},
              {"largest two", {normal_input({2, 9, 2})}, [](Inputs x) { return topk(x[0], 2, {.axis = 1}).indices; }},
              {"empty", {normal_input({0, 4})}, [](Inputs x) { return argsort(x[0]); }}};
        },
};

Tensor sorted_indices(const char* op, const Tensor& x, index_t axis_argument, bool descending, index_t count) {
  const int axis = normalize_axis(axis_argument, x.rank(), op);
  const index_t n = x.shape()[axis];
  if (count > n || count < 0) throw ValueError(op, cat("k is ", count, " on an axis of size ", n), "give 0 to the size");
  return apply(argsort_op, {&x}, ArgsortAttributes{axis, descending, count});
}

const OpDef sort_op = {
    .name = "sort",
    .family = "sort",
    .formula = R"(y_i = x_{\pi_i},\ y_1 \le y_2 \le \dots)",
    .shapes = "(..., N, ...) -> (..., N, ...)",
    .dtypes = "f32 f64 i64",
    .law = "NaN is greatest; equal elements keep their order",
    .gradient_note = "kinks where elements are equal: each keeps its own gradient",
    .shape = [](Run& r) { r.declare(r.in(0).shape(), r.in(0).dtype()); },
    .composite =
        [](Run& r) {
          const auto& options = r.attr<SortOptions>();
          return gather(r.in(0), options.axis, argsort(r.in(0), options));
        },
    .hides_nan = true,  // it moves to its end
    .cases =
        [] {
          return std::vector<OpCase>{{"last axis", {normal_input({3, 17})}, [](Inputs x) { return sort(x[0]); }},
                                     {"first axis, descending", {normal_input({5, 4})}, [](Inputs x) { return sort(x[0], {.axis = 0, .descending = true}); }},
                                     {"middle", {normal_input({2, 4, 3})}, [](Inputs x) { return sort(x[0], {.axis = 1}); }},
                                     {"ties", {value_input({6}, {1, 3, 3, 0, 0, 3})}, [](Inputs x) { return sort(x[0]); }, true},
                                     {"empty", {normal_input({0, 4})}, [](Inputs x) { return sort(x[0]); }}};
        },
};

const OpDef topk_op = {
    .name = "topk",
    .family = "sort",
    .formula = R"(y_i = x_{\pi_i},\ i \le k,\ x_{\pi_1} \ge x_{\pi_2} \ge \dots)",
    .shapes = "(..., N, ...), its sorted indices (..., k, ...) -> (..., k, ...)",
    .dtypes = "f32 f64 i64",
    .law = "NaN is greatest; of equal elements the lowest index first; k beyond the axis is an error",
    .gradient_note = "kinks where the k-th and the next are equal: those chosen take it",
    .shape = [](Run& r) { r.declare(r.in(1).shape(), r.in(0).dtype()); },
    .composite = [](Run& r) { return gather(r.in(0), r.attr<index_t>(), r.in(1)); },
    .hides_nan = true,  // it moves to its end
    .cases =
        [] {
          return std::vector<OpCase>{
              {"three of a vector", {normal_input({9})}, [](Inputs x) { return topk(x[0], 3).values; }},
              {"smallest, first axis", {normal_input({6, 3})}, [](Inputs x) { return topk(x[0], 2, {.axis = 0, .largest = false}).values; }},
              {"all", {normal_input({2, 4})}, [](Inputs x) { return topk(x[0], 4).values; }},
              {"none", {normal_input({2, 4})}, [](Inputs x) { return topk(x[0], 0).values; }},
              {"empty", {normal_input({0, 4})}, [](Inputs x) { return topk(x[0], 2).values; }}};
        },
};

}  // namespace

Tensor argsort(const Tensor& x, const SortOptions& options) { return sorted_indices("argsort", x, options.axis, options.descending, x.size(options.axis)); }
Tensor sort(const Tensor& x, const SortOptions& options) { return apply(sort_op, {&x}, options); }

Topk topk(const Tensor& x, index_t k, const TopkOptions& options) {
  const Tensor indices = sorted_indices("topk", x, options.axis, options.largest, k);
  return {apply(topk_op, {&x, &indices}, options.axis), indices};
}

std::span<const OpDef* const> sort_ops() {
  static const OpDef* const all[] = {&argsort_op, &sort_op, &topk_op};
  return all;
}

}  // namespace gradus
