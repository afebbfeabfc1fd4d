// What a reader meets: few entries at the top, short files below.

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/structure/sources.hpp"

namespace fs = std::filesystem;

TEST_CASE("no_source_file_exceeds_500_lines") {
  for (const char* folder : {"engine", "optim", "models", "tools", "tests", "bench"}) {
    for (const auto& file : gradus::structure::cpp_files(GRADUS_SOURCE_DIR, folder)) {
      INFO(file.generic_string());
      CHECK(gradus::structure::count_lines(fs::path(GRADUS_SOURCE_DIR) / file) <= 500);
    }
  }
}

// ctest gets the names through CMake lists: a semicolon or a bracket would make one of several, and a name that no test has runs
// nothing and passes.
TEST_CASE("test_names_are_whole_in_a_cmake_list") {
  const std::regex name("TEST_CASE\\(\\s*\"([^\"]*)\"");
  int names = 0;
  for (const auto& file : gradus::structure::cpp_files(GRADUS_SOURCE_DIR, "tests")) {
    std::ifstream in(fs::path(GRADUS_SOURCE_DIR) / file);
    std::stringstream text;
    text << in.rdbuf();
    const std::string all = text.str();
    for (std::sregex_iterator i(all.begin(), all.end(), name), end; i != end; ++i, ++names) {
      INFO(file.generic_string() << ": " << (*i)[1]);
      CHECK((*i)[1].str().find_first_of("[];\\") == std::string::npos);
    }
  }
  CHECK(names > 400);
}

TEST_CASE("top_level_holds_only_the_known_folders_and_files") {
  // Build trees are not part of the source: whatever lies in `build` is ignored by git.
  const std::set<std::string> known = {"engine",    "optim",  "models", "tools", "tests", "bench", "build", "CMakeLists.txt", "CMakePresets.json",
                                       "README.md", "LICENSE"};
  for (const auto& entry : fs::directory_iterator(GRADUS_SOURCE_DIR)) {
    const std::string name = entry.path().filename().string();
    INFO(name);
    CHECK((name.front() == '.' || known.count(name) == 1));
  }
}
