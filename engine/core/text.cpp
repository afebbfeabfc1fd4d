#include "engine/core/text.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace gradus {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row.back();
}

std::string join(std::span<const std::string> names, std::string_view quote) {
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : ", ").append(quote).append(name).append(quote);
  return text;
}

}  // namespace

std::string suggest_names(std::string_view name, std::span<const std::string> candidates) {
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance <= std::max<std::size_t>(2, name.size() / 3)) near.emplace_back(distance, candidate);
  }
  std::sort(near.begin(), near.end());
  std::vector<std::string> best;
  for (const auto& entry : near)
    if (best.size() < 3) best.push_back(entry.second);
  if (!best.empty()) return "did you mean " + join(best, "'") + "?";
  const std::size_t shown = std::min<std::size_t>(candidates.size(), 12);
  return candidates.empty() ? "" : "known: " + join(candidates.first(shown), "") + (shown < candidates.size() ? ", ..." : "");
}

}  // namespace gradus
