#include "models/kmeans/lloyd.hpp"

#include <cmath>

#include "engine/kernels/kernels.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/tensor/view.hpp"

namespace gradus::kmeans {
namespace {

// Plain sums of the points of every cluster, in the order of the points, in f64 whatever the dtype; and their numbers.
struct Clusters {
  std::vector<double> sums;
  std::vector<index_t> counts;
};
Clusters sum_clusters(const Tensor& points, const Tensor& label_of, index_t k) {
  const index_t n = points.shape()[0], d = points.shape()[1];
  const std::int64_t* labels = label_of.data<std::int64_t>();
  Clusters clusters{std::vector<double>(static_cast<std::size_t>(k * d)), std::vector<index_t>(static_cast<std::size_t>(k))};
  visit_floating(points.dtype(), "lloyd", [&](auto tag) {
    const auto* x = points.data<decltype(tag)>();
    for (index_t i = 0; i < n; ++i) {
      ++clusters.counts[static_cast<std::size_t>(labels[i])];
      for (index_t c = 0; c < d; ++c) clusters.sums[static_cast<std::size_t>(labels[i] * d + c)] += static_cast<double>(x[i * d + c]);
    }
  });
  return clusters;
}

index_t count_moved(const Tensor& before, const Tensor& after) {
  index_t moved = 0;
  for (index_t j = 0; j < before.shape()[0]; ++j) moved += !equal(view::select(before, 0, j), view::select(after, 0, j));
  return moved;
}

}  // namespace

Assignment assign(const Tensor& points, const Tensor& centres, bool with_labels) {
  const index_t n = points.shape()[0], d = points.shape()[1], k = centres.shape()[0];
  const Tensor x = contiguous(points), c = contiguous(centres);
  Assignment result;
  result.weights = Tensor::empty({k}, x.dtype());
  result.sums = Tensor::empty({k, d}, x.dtype());
  if (with_labels) result.labels = Tensor::empty({n}, DType::i64);
  visit_floating(x.dtype(), "assign", [&](auto tag) {
    using T = decltype(tag);
    kernels::AssignArgs<T> args{.n = n, .k = k, .d = d, .x = x.data<T>(), .x_row = d, .c = c.data<T>(), .c_row = d};
    args.tolerance = static_cast<T>(hardmax_tolerance(x.dtype()));
    args.weights = result.weights.mutable_data<T>();
    args.sums = result.sums.mutable_data<T>();
    args.labels = with_labels ? result.labels.mutable_data<std::int64_t>() : nullptr;
    args.objective = &result.objective;
    args.tied = &result.tied_points;
    kernels::active<T>().distance.assign_accumulate(args);
  });
  return result;
}

Tensor nearest_centres(const Tensor& points, const Tensor& centres) {
  const Tensor x = contiguous(points), c = contiguous(centres);
  const index_t n = x.shape()[0], d = x.shape()[1];
  Tensor labels = Tensor::empty({n}, DType::i64);
  visit_floating(x.dtype(), "nearest_centres", [&](auto tag) {
    using T = decltype(tag);
    kernels::NearestArgs<T> args{.n = n, .k = c.shape()[0], .d = d, .x = x.data<T>(), .x_row = d, .c = c.data<T>(), .c_row = d};
    args.index = labels.mutable_data<std::int64_t>();
    kernels::active<T>().distance.nearest(args);
  });
  return labels;
}

LloydStep lloyd_step(const Tensor& points, const Tensor& centres, const Random& random, std::uint64_t first_index) {
  const Tensor x = contiguous(points);
  const index_t n = x.shape()[0], d = x.shape()[1], k = centres.shape()[0];
  LloydStep step;
  step.assignment = assign(x, centres, true);
  // Where a tie within the tolerance took the lower index, the strictly nearest is asked for.
  if (step.assignment.tied_points > 0) step.assignment.labels = nearest_centres(x, centres);
  const Clusters clusters = sum_clusters(x, step.assignment.labels, k);
  step.centres = Tensor::empty(centres.shape(), centres.dtype());
  visit_floating(x.dtype(), "lloyd", [&](auto tag) {
    using T = decltype(tag);
    T* out = step.centres.mutable_data<T>();
    for (index_t j = 0; j < k; ++j) {
      const index_t count = clusters.counts[static_cast<std::size_t>(j)];
      const index_t member = count ? 0 : random.integer(first_index + static_cast<std::uint64_t>(j), n);
      step.empty_clusters += count == 0;
      for (index_t c = 0; c < d; ++c)
        out[j * d + c] = count ? static_cast<T>(clusters.sums[static_cast<std::size_t>(j * d + c)] / static_cast<double>(count)) : x.data<T>()[member * d + c];
    }
  });
  return step;
}

Trace lloyd(const Tensor& points, const Tensor& start, index_t layers, const Random& random, bool keep_labels, const std::function<void(index_t)>& progress) {
  check_problem(points, start.rank() == 2 ? start.shape()[0] : 0);
  if (layers < 0) throw ValueError("lloyd", cat(layers, " iterations"), "give 0 or more");
  Trace trace;
  Tensor centres = start;
  const auto note = [&](const Assignment& assignment) {
    trace.centres.push_back(centres);
    trace.objective.push_back(assignment.objective);
    trace.tied_points.push_back(assignment.tied_points);
  };
  for (index_t t = 0; t < layers; ++t) {
    const LloydStep step = lloyd_step(points, centres, random, static_cast<std::uint64_t>(t * start.shape()[0]));
    note(step.assignment);
    if (keep_labels) trace.labels.push_back(step.assignment.labels);
    trace.empty_clusters.push_back(step.empty_clusters);
    trace.moved_centres.push_back(count_moved(centres, step.centres));
    centres = step.centres;
    if (progress) progress(t + 1);
  }
  note(assign(points, centres, false));
  trace.labels.push_back(nearest_centres(points, centres));
  return trace;
}

}  // namespace gradus::kmeans
