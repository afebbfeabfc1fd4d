#include "tools/options.hpp"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "engine/core/parallel.hpp"
#include "engine/core/text.hpp"

namespace gradus::tools {

void add_common_options(CLI::App& command, CommonOptions& options) {
  command
      .add_option("--threads", options.threads,
                  "Threads to use; the results have the same bits with any number (default: GRADUS_THREADS, else one for every core)")
      ->type_name("N")
      ->check(CLI::Range(1, 256));
  command.add_option("--json", options.json, "Also write the results as JSON to this file; - is standard output, instead of the table (default: none)")
      ->type_name("OUT");
  command.add_flag("--quiet", options.quiet, "No table and no progress (default: off)");
  command.add_flag("--force", options.force, "Overwrite result files that exist, once the new ones are complete (default: off)");
}

void add_seed_option(CLI::App& command, std::uint64_t& seed) {
  // Not CLI11's own reading of unsigned numbers, which takes -1 for the largest one.
  const auto keep = [&seed](const std::string& text) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), seed);
    if (failed != std::errc() || end != text.data() + text.size())
      throw ValueError("--seed", "cannot be '" + text + "'", "give a whole number from 0 to 18446744073709551615");
  };
  command.add_option_function<std::string>("--seed", keep, "Seed of all random numbers")->type_name("S")->default_str(std::to_string(seed));
}

void apply_common_options(const CommonOptions& options) {
  if (options.threads > 0) set_thread_count(options.threads);
}

void refuse_name(const std::string& option, const std::string& name, const std::vector<std::string>& names) {
  throw ValueError(option, "takes no '" + name + "'", suggest_names(name, names));
}

CLI::Option* add_positive_or_infinite(CLI::App& command, const std::string& option, double& value, const std::string& help) {
  const auto keep = [option, &value](const std::string& text) {
    char* end = nullptr;
    const double number = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(number > 0) || (std::isinf(number) && text.find_first_of("0123456789") != std::string::npos))
      throw ValueError(option, "cannot be '" + text + "'", "give a number > 0, or inf");
    value = number;
  };
  return command.add_option_function<std::string>(option, keep, help)->type_name("X|inf")->default_str(std::isinf(value) ? "inf" : cat(value));
}

}  // namespace gradus::tools
