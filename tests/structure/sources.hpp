#pragma once
// Reading the source tree: the files of a folder, and the includes of a file.

#include <filesystem>
#include <string>
#include <vector>

namespace gradus::structure {

/// One #include line. `name` is what stands between the quotes or angle brackets.
struct Include {
  std::string name;
  int line = 0;
  bool quoted = false;
};

/// C++ files (.cpp, .hpp) under `folder` of `root`, as sorted paths relative to `root`; none when the folder is missing.
[[nodiscard]] std::vector<std::filesystem::path> cpp_files(const std::filesystem::path& root, const std::filesystem::path& folder);
[[nodiscard]] std::vector<Include> includes_of(const std::filesystem::path& file);
[[nodiscard]] int count_lines(const std::filesystem::path& file);

/// What is wrong with the includes of engine/, optim/, models/ and tools/ below `root`, one sentence each: arrows that point up,
/// includes that are not written from the root, and libraries used outside the folder that may know them.
[[nodiscard]] std::vector<std::string> include_violations(const std::filesystem::path& root);

}  // namespace gradus::structure
