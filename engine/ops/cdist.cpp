// Distances by other norms than the squared Euclidean one, and angles.
#include <cmath>

#include "engine/ops/define.hpp"
#include "engine/ops/distance.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/norms.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus {
namespace {

using define::batch_of;
using define::Inputs;
using define::with_matrix;

constexpr double infinity = std::numeric_limits<double>::infinity();

Shape batch_of_pair(const char* op, const Shape& a, const Shape& b) { return broadcast_shapes(batch_of(a), batch_of(b), op); }

void check_points(Run& r) {
  define::require_floating(r, 0);
  define::require_same_dtype(r, 0, 1);
  const Shape &a = r.in(0).shape(), &b = r.in(1).shape();
  if (a.rank() < 2 || b.rank() < 2 || a.back() != b.back()) throw ShapeError(r.name(), cat("a is ", a, ", b is ", b), "give (..., N, D) and (..., K, D)");
  r.declare(with_matrix(batch_of_pair(r.name(), a, b), a[a.rank() - 2], b[b.rank() - 2]), r.in(0).dtype());
}

// ---- the norms of plain coordinates, p = 1 and p = infinity -------------------------------------------------------------

Tensor spread_points(const Tensor& x, const Shape& batch) { return contiguous(view::expand(x, with_matrix(batch, -1, -1))); }

template <class T>
T coordinate_norm(const T* a, const T* b, index_t d, bool largest) {
  T total = 0;
  for (index_t k = 0; k < d; ++k) {
    const T difference = std::abs(a[k] - b[k]);
    if (!largest) total += difference;
    else if (difference > total || std::isnan(difference)) total = difference;
    if (std::isnan(total)) break;
  }
  return total;
}

// to += g d||a - b|| / da.
template <class T>
void add_coordinate_gradient(const T* a, const T* b, index_t d, T g, bool largest, T* to) {
  T norm = 0, ties = 1;
  if (largest) {
    norm = coordinate_norm(a, b, d, true);
    ties = 0;
    for (index_t k = 0; k < d; ++k) ties += std::abs(a[k] - b[k]) == norm ? T{1} : T{0};
  }
  for (index_t k = 0; k < d; ++k) {
    const T difference = a[k] - b[k];
    if (largest && std::abs(difference) != norm) continue;
    to[k] += g / ties * (difference > 0 ? T{1} : difference < 0 ? T{-1} : difference);
  }
}

// The gradient of every point of a, in the order of the points of b.
template <class T>
void coordinate_gradients(const Tensor& a, const Tensor& b, const Tensor& g, bool largest, Tensor& out) {
  const Tensor upstream = contiguous(g);
  const index_t n = a.size(-2), k = b.size(-2), d = a.size(-1);
  const T *x = a.data<T>(), *y = b.data<T>(), *up = upstream.data<T>();
  T* to = out.mutable_data<T>();
  compute::parallel_rows(d > 0 ? a.numel() / d : 0, k * d, [&](index_t first, index_t count) {
    for (index_t row = first; row < first + count; ++row) {
      std::fill_n(to + row * d, d, T{0});
      for (index_t j = 0; j < k; ++j) add_coordinate_gradient(x + row * d, y + (row / n * k + j) * d, d, up[row * k + j], largest, to + row * d);
    }
  });
}

const OpDef coordinate_distance_op = {
    .name = "coordinate_distance",
    .family = "distance",
    .formula = R"(y_{ij} = \sum_k |a_{ik} - b_{jk}| \text{ or } \max_k |a_{ik} - b_{jk}|)",
    .shapes = "(..., N, D), (..., K, D) -> (..., N, K)",
    .law = "gradient 0 for coordinates that coincide; those that tie for the maximum share it; without coordinates 0",
    .shape = check_points,
    .forward =
        [](Run& r) {
          const Shape batch = batch_of(r.out().shape());
          const Tensor a = spread_points(r.in(0), batch), b = spread_points(r.in(1), batch);
          const index_t n = a.size(-2), k = b.size(-2), d = a.size(-1);
          visit_floating(a.dtype(), r.name(), [&](auto tag) {
            using T = decltype(tag);
            const T *x = a.data<T>(), *y = b.data<T>();
            T* to = r.out().mutable_data<T>();
            compute::parallel_rows(k > 0 ? r.out().numel() / k : 0, k * d, [&](index_t first, index_t count) {
              for (index_t row = first; row < first + count; ++row)
                for (index_t j = 0; j < k; ++j) to[row * k + j] = coordinate_norm(x + row * d, y + (row / n * k + j) * d, d, r.attr<bool>());
            });
          });
        },
    .vjp =
        [](Vjp& b) {
          const Tensor difference = unsqueeze(b.input(0), -2) - unsqueeze(b.input(1), -3);
          Tensor g = unsqueeze(b.grad(), -1);
          if (b.attr<bool>()) {
            const Tensor hit = equal_to(abs(difference), unsqueeze(b.output(), -1));
            g = where(hit, g / sum(cast(hit, g.dtype()), {.axes = {-1}, .keep = true}), 0.0);
          }
          const Tensor each = g * sign(difference);
          b.to(0, sum(each, {.axes = {-2}}));
          b.to(1, -sum(each, {.axes = {-3}}));
        },
    .fused_vjp =
        [](Vjp& b) {
          const Shape batch = batch_of(b.grad().shape());
          const std::array<Tensor, 2> points{spread_points(b.input(0), batch), spread_points(b.input(1), batch)};
          for (int i = 0; i < 2; ++i) {
            if (!b.needs(i)) continue;
            const Tensor &own = points[i == 0 ? 0 : 1], &other = points[i == 0 ? 1 : 0];
            Tensor gradient = Tensor::empty(own.shape(), own.dtype());
            visit_floating(own.dtype(), "cdist", [&](auto tag) {
              coordinate_gradients<decltype(tag)>(own, other, i == 0 ? b.grad() : view::transpose(b.grad(), -1, -2), b.attr<bool>(), gradient);
            });
            b.to(i, gradient);
          }
        },
    .saves = save::inputs | save::output,
    .cases =
        [] {
          const auto sum_of = [](Inputs x) { return cdist(x[0], x[1], 1); };
          const auto largest = [](Inputs x) { return cdist(x[0], x[1], infinity); };
          const auto a = normal_input({5, 3}), b = normal_input({4, 3});
          return std::vector<OpCase>{
              {"p = 1", {a, b}, sum_of},
              {"p = infinity", {a, b}, largest},
              {"p = 1, batch broadcast", {normal_input({2, 1, 3, 2}), normal_input({3, 2, 2})}, sum_of},
              {"p = infinity, batch broadcast", {normal_input({2, 1, 3, 2}), normal_input({3, 2, 2})}, largest},
              {"p = 1, coincident points", {value_input({2, 2}, {1, 2, 3, 2}), value_input({1, 2}, {1, 2})}, sum_of, true},
              {"p = infinity, ties and coincident points", {value_input({2, 2}, {1, 2, 0, 3}), value_input({1, 2}, {1, 2})}, largest, true},
              {"no coordinates", {normal_input({3, 0}), normal_input({2, 0})}, largest},
              {"empty", {normal_input({0, 3}), b}, sum_of}};
        },
};

// ---- cdist and cosines ------------------------------------------------------------------------------------------------

const OpDef cdist_op = {
    .name = "cdist",
    .family = "distance",
    .formula = R"(y_{ij} = \|a_i - b_j\|_p)",
    .shapes = "(..., N, D), (..., K, D) -> (..., N, K)",
    .law = "from differences: exactly 0 from a point to itself, with gradient 0",
    .shape =
        [](Run& r) {
          check_points(r);
          const double p = r.attr<double>();
          if (p != 1 && p != 2 && p != infinity) throw ValueError("cdist", cat("p is ", p), "it is 1, 2 or infinity");
        },
    .composite =
        [](Run& r) {
          const double p = r.attr<double>();
          const Tensor &a = r.in(0), &b = r.in(1);
          if (p != 2) return apply(coordinate_distance_op, {&a, &b}, p == infinity);
          const Tensor squares = squared_distance(a, b), zero = equal_to(squares, 0.0);
          return where(zero, 0.0, sqrt(where(zero, 1.0, squares)));
        },
    .cases =
        [] {
          const auto call = [](Inputs x) { return cdist(x[0], x[1]); };
          const auto a = normal_input({5, 3}), b = normal_input({4, 3});
          return std::vector<OpCase>{{"p = 2", {a, b}, call},
                                     {"p = 1", {a, b}, [](Inputs x) { return cdist(x[0], x[1], 1); }},
                                     {"p = infinity", {a, b}, [](Inputs x) { return cdist(x[0], x[1], infinity); }},
                                     {"batch broadcast", {normal_input({2, 1, 3, 2}), normal_input({3, 2, 2})}, call},
                                     {"coincident points", {value_input({2, 2}, {1, 2, 3, 4}), value_input({1, 2}, {1, 2})}, call, true},
                                     {"no coordinates", {normal_input({3, 0}), normal_input({2, 0})}, call},
                                     {"empty", {normal_input({0, 3}), b}, call}};
        },
};

template <Tensor (*f)(const Tensor&, const Tensor&)>
std::vector<OpCase> cosine_cases() {
  const auto call = [](Inputs x) { return f(x[0], x[1]); };
  return {{"5 and 4 vectors", {normal_input({5, 3}), normal_input({4, 3})}, call},
          {"batch broadcast", {normal_input({2, 1, 3, 2}), normal_input({3, 2, 2})}, call},
          {"a zero vector", {value_input({2, 2}, {0, 0, 3, 4}), value_input({2, 2}, {1, 2, 0, 0})}, call, true},
          {"no coordinates", {normal_input({3, 0}), normal_input({2, 0})}, call},
          {"empty", {normal_input({0, 3}), normal_input({2, 3})}, call}};
}

const OpDef cosine_similarity_op = {
    .name = "cosine_similarity",
    .family = "distance",
    .formula = R"(y_{ij} = \frac{a_i \cdot b_j}{\|a_i\| \|b_j\|})",
    .shapes = "(..., N, D), (..., K, D) -> (..., N, K)",
    .law = "0 with gradient 0 where a vector is zero",
    .shape = check_points,
    .composite = [](Run& r) { return matmul(l2_normalize(r.in(0)), transpose(l2_normalize(r.in(1)))); },
    .cases = cosine_cases<cosine_similarity>,
};

const OpDef cosine_distance_op = {
    .name = "cosine_distance",
    .family = "distance",
    .formula = R"(y_{ij} = 1 - \frac{a_i \cdot b_j}{\|a_i\| \|b_j\|})",
    .shapes = "(..., N, D), (..., K, D) -> (..., N, K)",
    .law = "never negative, exactly 0 from a vector to itself; 1 with gradient 0 where a vector is zero",
    .shape = check_points,
    .composite =
        [](Run& r) {
          // |u - v|^2 = 2 - 2 u.v for unit vectors; a zero vector lacks its share of 1.
          const Tensor a = l2_normalize(r.in(0)), b = l2_normalize(r.in(1));
          const auto lacking = [](const Tensor& unit) { return cast(equal_to(sum(square(unit.detached()), {.axes = {-1}, .keep = true}), 0.0), unit.dtype()); };
          return 0.5 * (squared_distance(a, b) + (lacking(a) + transpose(lacking(b))));
        },
    .cases = cosine_cases<cosine_distance>,
};

}  // namespace

Tensor cdist(const Tensor& a, const Tensor& b, double p) { return apply(cdist_op, {&a, &b}, p); }
Tensor cosine_similarity(const Tensor& a, const Tensor& b) { return apply(cosine_similarity_op, {&a, &b}); }
Tensor cosine_distance(const Tensor& a, const Tensor& b) { return apply(cosine_distance_op, {&a, &b}); }

std::span<const OpDef* const> cdist_ops() {
  static const OpDef* const all[] = {&coordinate_distance_op, &cdist_op, &cosine_similarity_op, &cosine_distance_op};
  return all;
}

}  // namespace gradus
