#include "models/kmeans/data.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/tensor/view.hpp"

namespace gradus::kmeans {
namespace {

constexpr double spread = 0.1;  // standard deviation around a true centre

// Streams of one seed, so that each part of the data set has its own numbers.
enum Stream : std::uint64_t { centre_stream = 1, noise_stream, order_stream };

void scale_to_unit(std::vector<double>& values, index_t rows, index_t columns) {
  for (index_t c = 0; c < columns; ++c) {
    double low = values[static_cast<std::size_t>(c)], high = low;
    for (index_t r = 0; r < rows; ++r) {
      low = std::min(low, values[static_cast<std::size_t>(r * columns + c)]);
      high = std::max(high, values[static_cast<std::size_t>(r * columns + c)]);
    }
    const double range = high > low ? high - low : 1;
    for (index_t r = 0; r < rows; ++r) {
      double& v = values[static_cast<std::size_t>(r * columns + c)];
      v = (v - low) / range;
    }
  }
}

}  // namespace

Tensor published_mixture(index_t points, index_t dimensions, index_t clusters, const Random& random, DType dtype) {
  if (points < 1 || dimensions < 1) throw ValueError("published_mixture", cat(points, " points in ", dimensions, " dimensions"), "both must be at least 1");
  if (clusters < 1 || clusters > points)
    throw ValueError("published_mixture", cat(clusters, " clusters of ", points, " points"), "give 1 to the number of points");
  const Random centres = random.fork(centre_stream), noise = random.fork(noise_stream);
  std::vector<index_t> order(static_cast<std::size_t>(points));
  random.fork(order_stream).fill_permutation(order);
  std::vector<double> values(static_cast<std::size_t>(points * dimensions));
  const index_t each = points / clusters;
  for (index_t i = 0; i < points; ++i) {
    const index_t cluster = std::min(i / each, clusters - 1), row = order[static_cast<std::size_t>(i)];
    for (index_t c = 0; c < dimensions; ++c)
      values[static_cast<std::size_t>(row * dimensions + c)] =
          centres.uniform(static_cast<std::uint64_t>(cluster * dimensions + c)) + spread * noise.normal(static_cast<std::uint64_t>(i * dimensions + c));
  }
  scale_to_unit(values, points, dimensions);
  if (dtype == DType::f64) return Tensor::from(values, {points, dimensions});
  return Tensor::from(std::vector<float>(values.begin(), values.end()), {points, dimensions});
}

double max_magnitude(const Tensor& x) {
  const Tensor t = contiguous(x);
  return visit_floating(t.dtype(), "max_magnitude", [&](auto tag) {
    using T = decltype(tag);
    double largest = 0;
    for (index_t i = 0; i < t.numel(); ++i) largest = std::max(largest, std::fabs(static_cast<double>(t.data<T>()[i])));
    return largest;
  });
}

double agreement(const Tensor& labels_a, const Tensor& labels_b) {
  if (labels_a.shape() != labels_b.shape())
    throw ShapeError("agreement", cat("labels of shapes ", labels_a.shape(), " and ", labels_b.shape()), "label the same points");
  const Tensor a = contiguous(labels_a), b = contiguous(labels_b);
  index_t equal = 0;
  for (index_t i = 0; i < a.numel(); ++i) equal += a.data<std::int64_t>()[i] == b.data<std::int64_t>()[i];
  return a.numel() ? static_cast<double>(equal) / static_cast<double>(a.numel()) : 1;
}

}  // namespace gradus::kmeans
