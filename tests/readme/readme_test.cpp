// The README is true: its example prints what it says, and every command in it runs.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <vector>

#include "tests/io/data.hpp"

namespace fs = std::filesystem;
using gradus::testing::contents;
using gradus::testing::TemporaryFolder;

namespace {

const std::string source = GRADUS_SOURCE_DIR;

// The fenced blocks of one language, in order.
std::vector<std::string> blocks_of(const std::string& language) {
  std::vector<std::string> blocks;
  std::istringstream in(contents(source + "/README.md"));
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line == "```" + language) {
      inside = true;
      blocks.emplace_back();
    } else if (line.rfind("```", 0) == 0) {
      inside = false;
    } else if (inside) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

struct Outcome {
  int status;
  std::string output;
};

Outcome run(const std::string& command) {
  std::string output;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  char buffer[4096];
  for (std::size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.append(buffer, n);
  return {::pclose(pipe), output};
}

}  // namespace

TEST_CASE("the README's example prints what the README says", "[readme]") {
  REQUIRE(blocks_of("text").size() == 1);
  CHECK(run(GRADUS_README_EXAMPLE).output == blocks_of("text")[0]);
}

TEST_CASE("every command of the README runs", "[readme]") {
  const fs::path program = GRADUS_PROGRAM;
  const std::string ci = contents(source + "/.ci/run");
  int ran = 0;
  for (const std::string& block : blocks_of("sh")) {
    if (block == "./tools/demo\n" || block == "./tools/test\n") {
      // These two install and build: CI runs them as they stand.
      INFO(block);
      CHECK(ci.find(block.substr(0, block.size() - 1)) != std::string::npos);
      continue;
    }
    const TemporaryFolder folder;
    folder.put("commands.sh", "set -e -o pipefail\n" + block);
    const Outcome outcome = run("cd '" + fs::path(folder.file("")).string() + "' && PATH='" + program.parent_path().string() + "':$PATH bash commands.sh");
    INFO(block << outcome.output);
    CHECK(outcome.status == 0);
    ++ran;
    if (block.find("uniq") != std::string::npos) {
      // One checksum, whatever the threads.
      std::istringstream lines(outcome.output);
      int checksums = 0;
      for (std::string text; std::getline(lines, text);) checksums += text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
      CHECK(checksums == 1);
    }
  }
  CHECK(ran >= 2);
}

TEST_CASE("every command of the README for its source folder runs", "[readme]") {
  const std::vector<std::string> blocks = blocks_of("bash");
  CHECK(blocks.size() >= 2);
  if (fs::path(GRADUS_BINARY_DIR) != fs::path(source) / "build/release") {
    WARN("skipped: the commands are about build/release, this is another build");
    return;
  }
  if (std::system("python3 --version > /dev/null 2>&1") != 0) {
    WARN("skipped: there is no python3");
    return;
  }
  for (const std::string& block : blocks) {
    const Outcome outcome = run("cd '" + source + "' && bash -e -o pipefail -c '" + std::regex_replace(block, std::regex("'"), "'\\''") + "' < /dev/null");
    INFO(block << outcome.output);
    CHECK(outcome.status == 0);
  }
}
