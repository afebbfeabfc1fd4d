#pragma once
// Order statistics of a few numbers, one a seed.

#include <vector>

namespace gradus::tools {

/// Quantiles interpolate linearly between the ordered values.
struct Distribution {
  double min = 0, lower_quartile = 0, median = 0, upper_quartile = 0, max = 0;
};
/// Of at least one value; a NaN among them makes everything NaN.
[[nodiscard]] Distribution distribution_of(std::vector<double> values);

}  // namespace gradus::tools
