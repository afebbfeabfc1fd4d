// The engine against ONNX' own operator tests (Debian's package libonnx-testdata).

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "tests/catch.hpp"
#include "tests/onnx/runner.hpp"

using namespace gradus;
using namespace gradus::onnx;
namespace fs = std::filesystem;

namespace {

/// The folder of the package, or another version's given by GRADUS_ONNX.
fs::path root() {
  const char* given = std::getenv("GRADUS_ONNX");
  return given ? given : "/usr/share/libonnx-testdata/data";
}

constexpr const char* reasons[] = {"operator missing", "dtype missing", "attribute or input unsupported", "contradicts a law of ours"};

struct Tally {
  int cases = 0, passed = 0;
  std::vector<std::string> failures, against_laws;
  std::map<std::string, int> skipped[static_cast<std::size_t>(Skip::Reason::count)];

  [[nodiscard]] int skips(std::size_t reason) const {
    int n = 0;
    for (const auto& [what, count] : skipped[reason]) n += count;
    return n;
  }
};

void run(const fs::path& folder, Tally& tally) {
  const std::string name = folder.filename().string();
  ++tally.cases;
  try {
    const std::string wrong = run_case(folder);
    if (wrong.empty()) ++tally.passed;
    else tally.failures.push_back(name + ": " + wrong);
  } catch (const Skip& skip) {
    ++tally.skipped[static_cast<std::size_t>(skip.reason)][skip.what];
    if (skip.reason == Skip::Reason::law) tally.against_laws.push_back(name);
  } catch (const std::exception& error) {
    tally.failures.push_back(name + ": " + error.what());
  }
}

Tally run_all(const fs::path& folder) {
  std::vector<fs::path> cases;
  for (const auto& entry : fs::directory_iterator(folder))
    if (fs::exists(entry.path() / "model.onnx")) cases.push_back(entry.path());
  std::sort(cases.begin(), cases.end());
  Tally tally;
  for (const fs::path& one : cases) run(one, tally);
  return tally;
}

void print(const std::string& what, const Tally& tally) {
  std::cout << "ONNX " << what << ": " << tally.cases << " cases, " << tally.passed << " passed, " << tally.failures.size() << " failed\n";
  for (std::size_t reason = 0; reason < std::size(reasons); ++reason) {
    std::cout << "  skipped, " << reasons[reason] << ": " << tally.skips(reason) << '\n';
    std::string line = "   ";
    for (const auto& [item, count] : tally.skipped[reason]) {
      const std::string text = cat(' ', item, " (", count, "),");
      if (line.size() + text.size() > 130) {
        std::cout << line << '\n';
        line = "   ";
      }
      line += text;
    }
    if (line.size() > 3) std::cout << line.substr(0, line.size() - 1) << '\n';
  }
  for (const std::string& name : tally.against_laws) std::cout << "    against a law: " << name << '\n';
}

Tally run_and_check(const std::string& folder) {
  if (!fs::is_directory(root() / folder)) {
    WARN("skipped: no " << (root() / folder).string() << "; install libonnx-testdata");
    return {};
  }
  const Tally tally = run_all(root() / folder);
  print(folder, tally);
  for (const std::string& failure : tally.failures) {
    UNSCOPED_INFO(failure);
    CHECK(failure.empty());
  }
  return tally;
}

}  // namespace

TEST_CASE("the operators agree with ONNX' node tests", "[onnx]") {
  const Tally tally = run_and_check("node");
  if (tally.cases > 0) CHECK(tally.passed >= 650);
}

TEST_CASE("the operators agree with ONNX' models converted from PyTorch", "[onnx]") {
  for (const char* folder : {"pytorch-operator", "pytorch-converted", "simple"}) (void)run_and_check(folder);
}
