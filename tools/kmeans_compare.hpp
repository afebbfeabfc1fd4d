#pragma once
// A run of the k-means transformer beside Lloyd's algorithm from the same start.

#include <vector>

#include "models/kmeans/lloyd.hpp"

namespace gradus::tools {

/// How far two runs of the same length are apart. Entry t is after layer t, entry 0 the start.
struct Comparison {
  std::vector<double> centre_difference;       ///< largest difference of a coordinate
  std::vector<index_t> differing_assignments;  ///< points whose label differs; only the last entry when labels of layers were not kept
  double agreement = 1;                        ///< share of equal labels at the end
  double largest_centre_difference = 0;        ///< over all layers
};
[[nodiscard]] Comparison compare(const kmeans::Trace& a, const kmeans::Trace& b);

/// ln of every objective; minus infinity for 0.
[[nodiscard]] std::vector<double> log_objectives(const kmeans::Trace& trace);

/// The first layer, counted from 1, that met a tied nearest centre or an empty cluster; 0 when none did. From there two
/// implementations may rightly differ.
[[nodiscard]] index_t first_ambiguous_layer(const kmeans::Trace& trace);

}  // namespace gradus::tools
