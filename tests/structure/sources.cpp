#include "tests/structure/sources.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string_view>

namespace gradus::structure {

namespace fs = std::filesystem;

namespace {

// A room of the house: where it is, which rooms it may include besides itself, which libraries it may know.
struct Room {
  std::set<std::string> rooms;
  std::set<std::string> libraries;
};

const std::map<std::string, Room>& rooms() {
  static const std::map<std::string, Room> all = {
      {"engine/core", {{}, {}}},
      {"engine/kernels", {{"engine/core"}, {"xsimd"}}},
      {"engine/tensor", {{"engine/core", "engine/kernels"}, {}}},
      {"engine/io", {{"engine/core", "engine/kernels", "engine/tensor"}, {"zlib.h", "nlohmann"}}},
      {"engine/autograd", {{"engine/core", "engine/kernels", "engine/tensor"}, {}}},
      {"engine/ops", {{"engine/core", "engine/kernels", "engine/tensor", "engine/autograd"}, {}}},
      {"optim", {{"engine/core", "engine/kernels", "engine/tensor", "engine/autograd", "engine/ops", "engine/io"}, {}}},
      {"models", {{"engine/core", "engine/kernels", "engine/tensor", "engine/autograd", "engine/ops", "engine/io", "optim"}, {}}},
      {"tools",
       {{"engine/core", "engine/kernels", "engine/tensor", "engine/autograd", "engine/ops", "engine/io", "optim", "models"}, {"CLI", "fmt", "nlohmann"}}},
  };
  return all;
}

// "engine/ops" for engine/ops/x.hpp, "models" for models/kmeans/x.hpp, "" for what belongs to no room.
std::string room_of(const std::string& path) {
  for (const auto& [name, room] : rooms())
    if (path.rfind(name + "/", 0) == 0) return name;
  return "";
}

bool is_library(const std::string& name) {
  static const std::set<std::string> known = {"xsimd", "zlib.h", "CLI", "fmt", "nlohmann", "catch2", "rapidcheck", "rapidcheck.h", "benchmark"};
  return known.count(name.substr(0, name.find('/'))) > 0;
}

std::string violation(const fs::path& root, const std::string& from, const Include& include) {
  const Room& room = rooms().at(from);
  const std::string to = room_of(include.name);
  if (!to.empty() && !include.quoted) return "is ours and belongs in quotes";
  if (!to.empty()) {
    if (to != from && room.rooms.count(to) == 0) return "points up: " + from + " may not know " + to;
    return fs::exists(root / include.name) ? "" : "does not exist";
  }
  if (include.quoted) return "is not written from the root, or not from a folder that " + from + " may know";
  if (is_library(include.name) && room.libraries.count(include.name.substr(0, include.name.find('/'))) == 0)
    return "is a library that " + from + " may not know";
  return "";
}

}  // namespace

std::vector<fs::path> cpp_files(const fs::path& root, const fs::path& folder) {
  std::vector<fs::path> files;
  if (!fs::is_directory(root / folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    const auto extension = entry.path().extension();
    if (entry.is_regular_file() && (extension == ".cpp" || extension == ".hpp")) files.push_back(fs::relative(entry.path(), root));
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Include> includes_of(const fs::path& file) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>))re");
  std::vector<Include> includes;
  std::ifstream in(file);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::smatch match;
    if (std::regex_search(line, match, pattern)) includes.push_back({match[1].matched ? match[1].str() : match[2].str(), number, match[1].matched});
  }
  return includes;
}

int count_lines(const fs::path& file) {
  std::ifstream in(file);
  int lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  return lines;
}

std::vector<std::string> include_violations(const fs::path& root) {
  std::vector<std::string> found;
  for (const char* folder : {"engine", "optim", "models", "tools"}) {
    for (const fs::path& file : cpp_files(root, folder)) {
      const std::string from = room_of(file.generic_string());
      if (from.empty()) {
        found.push_back(file.generic_string() + " is in no room of the house");
        continue;
      }
      for (const Include& include : includes_of(root / file)) {
        const std::string problem = violation(root, from, include);
        if (!problem.empty()) found.push_back(file.generic_string() + ":" + std::to_string(include.line) + ": \"" + include.name + "\" " + problem);
      }
    }
  }
  return found;
}

}  // namespace gradus::structure
