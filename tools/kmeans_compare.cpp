#include "tools/kmeans_compare.hpp"

#include <cmath>

#include "models/kmeans/data.hpp"

namespace gradus::tools {

Comparison compare(const kmeans::Trace& a, const kmeans::Trace& b) {
  Comparison result;
  for (std::size_t t = 0; t < a.centres.size(); ++t) {
    const double difference = max_difference(a.centres[t], b.centres[t]);
    result.centre_difference.push_back(difference);
    if (std::isnan(difference) || difference > result.largest_centre_difference) result.largest_centre_difference = difference;
  }
  for (std::size_t t = 0; t < a.labels.size(); ++t) {
    result.agreement = kmeans::agreement(a.labels[t], b.labels[t]);
    const auto points = static_cast<double>(a.labels[t].numel());
    result.differing_assignments.push_back(static_cast<index_t>(std::lround((1 - result.agreement) * points)));
  }
  return result;
}

std::vector<double> log_objectives(const kmeans::Trace& trace) {
  std::vector<double> logs;
  for (const double objective : trace.objective) logs.push_back(std::log(objective));
  return logs;
}

index_t first_ambiguous_layer(const kmeans::Trace& trace) {
  for (std::size_t t = 0; t < trace.empty_clusters.size(); ++t)
    if (trace.tied_points[t] > 0 || trace.empty_clusters[t] > 0) return static_cast<index_t>(t) + 1;
  return 0;
}

}  // namespace gradus::tools
