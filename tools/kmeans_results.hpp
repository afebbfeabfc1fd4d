#pragma once
// What `gradus kmeans run` found, as a table, a summary, JSON and files.

#include <cstdint>
#include <optional>
#include <string>

#include "models/kmeans/transformer.hpp"
#include "tools/kmeans_compare.hpp"
#include "tools/points.hpp"

namespace gradus::tools {

/// What was asked for. The defaults are the program's.
struct KmeansSettings {
  std::string file;
  index_t clusters = 0, layers = 10;
  kmeans::TransformerOptions model;
  kmeans::Start start = kmeans::Start::kmeans_plus_plus;
  DType dtype = DType::f64;
  std::uint64_t seed = 1;
};

/// One run and, when asked for, Lloyd's from the same start.
struct KmeansResult {
  KmeansSettings settings;
  Points points;
  kmeans::Trace transformer;
  double seconds = 0;  ///< of all layers
  std::optional<kmeans::Trace> lloyd;
  double lloyd_seconds = 0;
  Comparison difference;  ///< when there is Lloyd's
};

/// Names of the options' values, as the command line has them.
[[nodiscard]] const Choices<kmeans::Construction>& construction_names();
[[nodiscard]] const Choices<kmeans::SelfAttention>& self_attention_names();
[[nodiscard]] const Choices<kmeans::CentreUpdate>& centre_update_names();
[[nodiscard]] const Choices<kmeans::Start>& start_names();
/// The name of a value.
template <class T>
[[nodiscard]] std::string name_in(const Choices<T>& choices, T value) {
  for (const auto& [name, choice] : choices)
    if (choice == value) return name;
  return "?";
}
/// "inf", or the number.
[[nodiscard]] std::string temperature_name(double inverse_temperature);

/// The command line that gives this result again.
[[nodiscard]] std::string kmeans_command(const KmeansSettings& settings);

/// One line a layer, then the summary.
[[nodiscard]] std::string kmeans_report(const KmeansResult& result);
[[nodiscard]] std::string kmeans_json(const KmeansResult& result);
/// A matrix (N, D) as lines of comma-separated numbers or a vector (N) as lines of numbers, every one in its shortest exact
/// form; as an npy file when `path` ends in .npy.
[[nodiscard]] std::string array_file(const Tensor& values, const std::string& path);

}  // namespace gradus::tools
