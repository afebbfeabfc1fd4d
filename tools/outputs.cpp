#include "tools/outputs.hpp"

#include <filesystem>

#include "engine/core/error.hpp"
#include "tools/console.hpp"

namespace gradus::tools {
namespace {

std::string canonical(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, failed);
  return failed ? path : real.string();
}

}  // namespace

Outputs::Outputs(bool force, const std::vector<std::string>& inputs) : force_(force) {
  for (const std::string& input : inputs) taken_.emplace_back(canonical(input), "the input");
}

void Outputs::claim(const std::string& option, const std::string& path) {
  if (path.empty()) return;
  if (path == "-") {
    if (use_standard_output()) throw ValueError(option, cat("standard output is taken by ", standard_output_), "name a file");
    standard_output_ = option;
    contents_[option];
    return;
  }
  const std::string real = canonical(path);
  for (const auto& [other, owner] : taken_)
    if (other == real) throw ValueError(option, cat("'", path, "' is also ", owner), "name another file");
  contents_[option].file.emplace(path, force_);
  taken_.emplace_back(real, "the file of " + option);
}

void Outputs::set(const std::string& option, std::string bytes) {
  const auto at = contents_.find(option);
  if (at != contents_.end()) at->second.bytes = std::move(bytes);
}

void Outputs::commit() {
  for (auto& [option, place] : contents_) {
    if (place.file) place.file->write(place.bytes);
    else print(place.bytes);
  }
  for (auto& [option, place] : contents_)
    if (place.file) place.file->commit();
}

}  // namespace gradus::tools
