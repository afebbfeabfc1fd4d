// The four ways to choose first centres.
#include <algorithm>
#include <numeric>

#include "engine/ops/distance.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "models/kmeans/lloyd.hpp"

namespace gradus::kmeans {
namespace {

std::vector<double> as_doubles(const Tensor& t) {
  return visit_floating(t.dtype(), "kmeans", [&](auto tag) {
    const auto values = t.to_vector<decltype(tag)>();
    return std::vector<double>(values.begin(), values.end());
  });
}

// Chooses rows one by one; keeps every point's squared distance to the nearest row chosen so far.
class Chooser {
 public:
  Chooser(const Tensor& points, index_t first) : points_(points), taken_(static_cast<std::size_t>(points.shape()[0]), false) { take(first); }

  void take(index_t row) {
    rows_.push_back(row);
    taken_[static_cast<std::size_t>(row)] = true;
    const Tensor distance = view::reshape(squared_distance(points_, view::slice(points_, 0, {row, row + 1})), {-1});
    nearest_ = nearest_.defined() ? minimum(nearest_, distance) : distance;
    weights_ = as_doubles(nearest_);
  }

  // A row with probability proportional to its distance; when all remaining points coincide with chosen ones, any free row.
  [[nodiscard]] index_t sample(double u) const {
    double total = 0;
    for (double w : weights_) total += w;
    if (!(total > 0)) return free_row(u);
    double left = u * total;
    index_t last = -1;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      if (weights_[i] <= 0) continue;
      last = static_cast<index_t>(i);
      left -= weights_[i];
      if (left < 0) break;
    }
    return last;
  }

  [[nodiscard]] index_t farthest(double u) const {
    const auto at = std::max_element(weights_.begin(), weights_.end());
    return *at > 0 ? at - weights_.begin() : free_row(u);
  }

  [[nodiscard]] const std::vector<index_t>& rows() const { return rows_; }

 private:
  [[nodiscard]] index_t free_row(double u) const {
    auto skip = static_cast<index_t>(u * static_cast<double>(taken_.size() - rows_.size()));
    for (std::size_t i = 0; i < taken_.size(); ++i)
      if (!taken_[i] && skip-- == 0) return static_cast<index_t>(i);
    return 0;
  }

  const Tensor& points_;
  std::vector<bool> taken_;
  std::vector<index_t> rows_;
  std::vector<double> weights_;
  Tensor nearest_;
};

std::vector<index_t> chosen_rows(const Tensor& points, index_t k, Start start, const Random& random) {
  const index_t n = points.shape()[0];
  if (start == Start::first || start == Start::random) {
    std::vector<index_t> rows(static_cast<std::size_t>(n));
    std::iota(rows.begin(), rows.end(), index_t{0});
    if (start == Start::random) random.fill_permutation(rows);
    rows.resize(static_cast<std::size_t>(k));
    return rows;
  }
  Chooser chooser(points, random.integer(0, n));
  const Random draws = random.fork(1);
  for (index_t i = 1; i < k; ++i) {
    const double u = draws.uniform(static_cast<std::uint64_t>(i));
    chooser.take(start == Start::farthest ? chooser.farthest(u) : chooser.sample(u));
  }
  return chooser.rows();
}

}  // namespace

void check_problem(const Tensor& points, index_t k) {
  if (points.rank() != 2) throw ShapeError("kmeans", cat("points have shape ", points.shape()), "give (N, D)");
  if (!is_floating(points.dtype())) throw DTypeError("kmeans", cat("points are ", name_of(points.dtype())), "give f32 or f64");
  if (points.shape()[1] < 1) throw ShapeError("kmeans", cat("points have shape ", points.shape(), ": no dimensions"), "give at least one number column");
  if (k < 1 || k > points.shape()[0]) throw ValueError("kmeans", cat(k, " clusters of ", points.shape()[0], " points"), cat("give 1 to ", points.shape()[0]));
}

Tensor initial_centres(const Tensor& points, index_t k, Start start, const Random& random) {
  check_problem(points, k);
  const std::vector<index_t> rows = chosen_rows(points, k, start, random);
  return copy(index_select(points.detached(), 0, Tensor::from(rows, {k})));
}

}  // namespace gradus::kmeans
