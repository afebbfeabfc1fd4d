#pragma once
// What the commands' options have in common: those that all of them take, and the checks of their values.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/dtype.hpp"

namespace gradus::tools {

/// Options of every command.
struct CommonOptions {
  int threads = 0;  ///< 0: as many as thread_count() says
  bool quiet = false;
  bool force = false;
  std::string json;  ///< empty: not wanted; "-": standard output
};

/// What a command line asks for: set by the command that was named, run when all of the line has been understood.
using Action = std::function<int()>;

/// Adds --threads, --json, --quiet and --force.
void add_common_options(CLI::App& command, CommonOptions& options);
/// Adds --seed. Only commands that draw random numbers take it.
void add_seed_option(CLI::App& command, std::uint64_t& seed);
/// Applies --threads.
void apply_common_options(const CommonOptions& options);

/// Names and the values that they stand for.
template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

/// Throws the error of a name that is none of `names`, with near ones.
[[noreturn]] void refuse_name(const std::string& option, const std::string& name, const std::vector<std::string>& names);

/// Adds an option that takes one of several names and keeps the value of the one given. Its help lists them and the default.
template <class T>
CLI::Option* add_choice(CLI::App& command, const std::string& option, T& value, const Choices<T>& choices, const std::string& help) {
  std::vector<std::string> names;
  std::string list, current;
  for (const auto& [name, choice] : choices) {
    names.push_back(name);
    list += (list.empty() ? "" : "|") + name;
    if (choice == value) current = name;
  }
  const auto keep = [option, &value, choices, names](const std::string& text) {
    for (const auto& [name, choice] : choices) {
      if (name != text) continue;
      value = choice;
      return;
    }
    refuse_name(option, text, names);
  };
  return command.add_option_function<std::string>(option, keep, help)->type_name(list)->default_str(current);
}

/// Adds an option that takes a finite number > 0 or "inf".
CLI::Option* add_positive_or_infinite(CLI::App& command, const std::string& option, double& value, const std::string& help);

}  // namespace gradus::tools
