#pragma once
// k-means written as plainly as possible, for the transformer to be compared with: no tensors, no kernels.

#include <cmath>
#include <vector>

#include "engine/ops/normalize.hpp"
#include "models/kmeans/transformer.hpp"

namespace gradus::testing {

struct PlainPoints {
  index_t n = 0, d = 0;
  std::vector<double> x;  // row-major
  [[nodiscard]] const double* row(index_t i) const { return x.data() + i * d; }
};

inline PlainPoints plain(const Tensor& t) { return {t.shape()[0], t.shape()[1], t.to_vector<double>()}; }

inline double plain_score(const double* x, const double* c, index_t d, kmeans::Construction construction) {
  double distance = 0, dot = 0, norm = 0;
  for (index_t p = 0; p < d; ++p) {
    distance += (x[p] - c[p]) * (x[p] - c[p]);
    dot += x[p] * c[p];
    norm += c[p] * c[p];
  }
  return construction == kmeans::Construction::euclidean ? -distance : dot - norm / 2;
}

/// One iteration of Lloyd's algorithm in which a point whose best centres are tied (within the limiting map's tolerance) counts
/// for each of them in equal parts. An empty cluster stays (linear update) or goes to the mean of all points (softmax update).
inline PlainPoints tie_splitting_lloyd_step(const PlainPoints& points, const PlainPoints& centres, kmeans::Construction construction,
                                            kmeans::CentreUpdate update) {
  const index_t k = centres.n, d = points.d;
  std::vector<double> weight(static_cast<std::size_t>(k)), sums(static_cast<std::size_t>(k * d)), all(static_cast<std::size_t>(d));
  std::vector<double> scores(static_cast<std::size_t>(k));
  for (index_t i = 0; i < points.n; ++i) {
    double best = -HUGE_VAL;
    for (index_t j = 0; j < k; ++j) best = std::max(best, scores[static_cast<std::size_t>(j)] = plain_score(points.row(i), centres.row(j), d, construction));
    const double least = best - hardmax_tolerance(DType::f64) * (1 + std::fabs(best));
    double tied = 0;
    for (const double s : scores) tied += s >= least;
    for (index_t j = 0; j < k; ++j) {
      if (scores[static_cast<std::size_t>(j)] < least) continue;
      weight[static_cast<std::size_t>(j)] += 1 / tied;
      for (index_t p = 0; p < d; ++p) sums[static_cast<std::size_t>(j * d + p)] += points.row(i)[p] / tied;
    }
    for (index_t p = 0; p < d; ++p) all[static_cast<std::size_t>(p)] += points.row(i)[p] / static_cast<double>(points.n);
  }
  PlainPoints next = centres;
  for (index_t j = 0; j < k; ++j)
    for (index_t p = 0; p < d; ++p) {
      double& c = next.x[static_cast<std::size_t>(j * d + p)];
      if (weight[static_cast<std::size_t>(j)] > 0) c = sums[static_cast<std::size_t>(j * d + p)] / weight[static_cast<std::size_t>(j)];
      else if (update == kmeans::CentreUpdate::softmax) c = all[static_cast<std::size_t>(p)];
    }
  return next;
}

inline Tensor as_tensor(const PlainPoints& points) { return Tensor::from(points.x, {points.n, points.d}); }

}  // namespace gradus::testing
