#pragma once
// The result files of a command: all claimed before the work starts, all given their names after it.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/io/file.hpp"

namespace gradus::tools {

class Outputs {
 public:
  /// `inputs` are files that no output may replace.
  explicit Outputs(bool force, const std::vector<std::string>& inputs = {});
  /// Claims the file that an option names; an empty path claims nothing, "-" standard output. Throws ValueError when two
  /// options name one file or one names an input, and what io::OutputFile throws for a place that cannot be written.
  void claim(const std::string& option, const std::string& path);
  [[nodiscard]] bool wanted(const std::string& option) const { return contents_.contains(option); }
  /// True when standard output carries a result, so that tables are left out.
  [[nodiscard]] bool use_standard_output() const noexcept { return !standard_output_.empty(); }
  /// Keeps what goes to the option's file; ignored when it was not claimed.
  void set(const std::string& option, std::string bytes);
  /// Writes all files, then gives all of them their names.
  void commit();

 private:
  struct Place {
    std::optional<io::OutputFile> file;  // none: standard output
    std::string bytes;
  };
  bool force_;
  std::vector<std::pair<std::string, std::string>> taken_;  // canonical path, what has it
  std::map<std::string, Place> contents_;
  std::string standard_output_;
};

}  // namespace gradus::tools
