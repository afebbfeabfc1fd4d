#include "tools/distribution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.hpp"

namespace gradus::tools {
namespace {

double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1), fraction = place - std::floor(place);
  const auto at = static_cast<std::size_t>(place);
  // Equal neighbours first: infinities must not be subtracted.
  if (fraction == 0 || sorted[at] == sorted[at + 1]) return sorted[at];
  return sorted[at] + fraction * (sorted[at + 1] - sorted[at]);
}

}  // namespace

Distribution distribution_of(std::vector<double> values) {
  if (values.empty()) throw ValueError("distribution", "no values");
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (std::any_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) return {nan, nan, nan, nan, nan};
  std::sort(values.begin(), values.end());
  return {values.front(), quantile(values, 0.25), quantile(values, 0.5), quantile(values, 0.75), values.back()};
}

}  // namespace gradus::tools
