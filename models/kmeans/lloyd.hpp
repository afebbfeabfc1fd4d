#pragma once
// Lloyd's algorithm and its starts: what the k-means transformer is checked against.

#include <functional>
#include <vector>

#include "engine/core/random.hpp"
#include "engine/tensor/tensor.hpp"

namespace gradus::kmeans {

/// How the first centres are chosen among the points.
enum class Start : std::uint8_t {
  first,             ///< the first k points, as in the paper's run
  random,            ///< k distinct rows, uniformly
  kmeans_plus_plus,  ///< each next one with probability proportional to its squared distance from those chosen
  farthest,          ///< a random one, then always the point farthest from those chosen (Gonzalez)
};

/// Checks points (N, D) floating and 1 <= k <= N; otherwise a ValueError or ShapeError.
void check_problem(const Tensor& points, index_t k);

/// The first centres (K, D). Distinct rows are chosen; distinct points as far as there are k of them. The bits depend on
/// `random` alone.
[[nodiscard]] Tensor initial_centres(const Tensor& points, index_t k, Start start, const Random& random);

/// Points against centres.
struct Assignment {
  Tensor labels;            ///< (N) i64: nearest centre, the lowest index among those tied
  double objective = 0;     ///< sum over points of the squared distance to the nearest centre
  index_t tied_points = 0;  ///< points whose nearest centre is tied within the limiting map's tolerance
  Tensor weights;           ///< (K): sum over points of the limiting map's weights (ties split)
  Tensor sums;              ///< (K, D): weighted sums of points
};
/// One pass over the points; nothing of size N x K is held. `with_labels` off leaves labels undefined.
[[nodiscard]] Assignment assign(const Tensor& points, const Tensor& centres, bool with_labels = true);
/// (N) i64: the index of the nearest centre, the lowest among those at exactly the same distance.
[[nodiscard]] Tensor nearest_centres(const Tensor& points, const Tensor& centres);

/// One iteration's outcome.
struct LloydStep {
  Tensor centres;              ///< after the update
  Assignment assignment;       ///< by the centres before it; labels as of nearest_centres
  index_t empty_clusters = 0;  ///< each was given a random data point
};
/// Assign every point to its nearest centre (ties: lowest index), move every centre to the mean of its points. An empty cluster
/// takes the data point random.integer(first_index + cluster, N).
[[nodiscard]] LloydStep lloyd_step(const Tensor& points, const Tensor& centres, const Random& random, std::uint64_t first_index);

/// The course of `layers` iterations.
struct Trace {
  std::vector<Tensor> centres;          ///< layers + 1: before, then after each
  std::vector<double> objective;        ///< layers + 1, of those centres
  std::vector<Tensor> labels;           ///< layers + 1 when asked for, else the last only: assignment by those centres
  std::vector<index_t> tied_points;     ///< layers + 1, at those centres
  std::vector<index_t> empty_clusters;  ///< layers: met in each update
  std::vector<index_t> moved_centres;   ///< layers: centres that changed
};
/// `progress`, when given, is called after each iteration with its number.
[[nodiscard]] Trace lloyd(const Tensor& points, const Tensor& start, index_t layers, const Random& random, bool keep_labels = false,
                          const std::function<void(index_t layer)>& progress = {});

}  // namespace gradus::kmeans
