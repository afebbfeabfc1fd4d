#pragma once
// Reference values made once by other programs: npz files in the folder "reference" beside the shared data sets.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "engine/io/npz.hpp"
#include "tests/catch.hpp"

namespace gradus::testing {

/// The arrays of reference/NAME.npz; none, with a warning, where the file is not there.
inline std::map<std::string, Tensor> reference(const std::string& name) {
  const char* root = std::getenv("GRADUS_DATA");
  const std::string path = root ? (std::filesystem::path(root) / ".." / "reference" / (name + ".npz")).string() : "";
  if (!path.empty() && std::filesystem::is_regular_file(path)) return io::read_npz(path);
  WARN("skipped: there is no reference/" << name << ".npz beside GRADUS_DATA");
  return {};
}

/// max |got - want| / max(max |want|, 1), in doubles whatever the dtypes; NaN where only one of them is NaN, infinite where shapes differ.
inline double deviation(const Tensor& got, const Tensor& want) {
  const auto doubles = [](const Tensor& t) {
    return visit_dtype(t.dtype(), [&](auto tag) {
      const auto values = t.to_vector<decltype(tag)>();
      return std::vector<double>(values.begin(), values.end());
    });
  };
  if (!(got.shape() == want.shape())) return HUGE_VAL;
  const std::vector<double> a = doubles(got), b = doubles(want);
  double worst = 0, largest = 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::isnan(a[i] - b[i])) return a[i] - b[i];
    worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  for (const double value : b)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return worst / largest;
}

}  // namespace gradus::testing
