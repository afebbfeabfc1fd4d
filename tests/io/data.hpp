#pragma once
// Helpers of the io tests: a folder that vanishes, the shared data sets, and the text of an error.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "engine/core/error.hpp"
#include "tests/catch.hpp"

namespace gradus::testing {

/// An empty folder, removed with all it holds at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "gradus-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  /// Writes a file with plain streams, independent of the code under test.
  std::string put(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return file(name);
  }
  [[nodiscard]] std::size_t count() const {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++n;
    return n;
  }

 private:
  std::filesystem::path path_;
};

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A folder of the shared data sets; empty, with a warning, where they are not.
inline std::string shared_data(const std::string& folder) {
  const char* root = std::getenv("GRADUS_DATA");
  const std::string path = root ? (std::filesystem::path(root) / folder).string() : "";
  if (!path.empty() && std::filesystem::is_directory(path)) return path;
  WARN("skipped: GRADUS_DATA has no folder " << folder);
  return "";
}

/// A matcher for messages that contain `part`, under one name for both versions of Catch2.
inline auto says(const std::string& part) {
#if __has_include(<catch2/catch_all.hpp>)
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Matchers::Contains(part);
#endif
}

/// The message of the E that `f` throws; fails the test when it throws nothing.
template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  FAIL("nothing was thrown");
  return "";
}

template <class F>
std::string io_error(F&& f) {
  return message_of<IoError>(std::forward<F>(f));
}

}  // namespace gradus::testing
