#pragma once
// Runs the built program as a user does: as a process, with its own standard output and standard error.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/io/data.hpp"

namespace gradus::testing {

/// How a run of the program ended.
struct ProgramRun {
  int status = -1;  ///< exit status; 128 + the signal's number when one ended it
  std::string out, err;
};

/// Runs `gradus` with these arguments; `environment` entries "NAME=value" are added to the test's own.
[[nodiscard]] ProgramRun run_gradus(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});
/// Runs a shell command in which $gradus is the program.
[[nodiscard]] ProgramRun shell(const std::string& command);

/// Runs the program, requires success and parses its standard output, to which `--json -` is added.
[[nodiscard]] nlohmann::json run_json(std::vector<std::string> arguments);

/// The lines of a text.
[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);

/// Six points in two clusters of three, (0 or 10) + small steps, as csv.
inline constexpr const char* two_clusters = "0,0\n1,0\n0,1\n10,10\n11,10\n10,11\n";

}  // namespace gradus::testing
