#pragma once
// The commands of the program. Each adds itself to the app; parsing a command line that names it leaves what to run in `action`.

#include "tools/options.hpp"

namespace gradus::tools {

void add_info_command(CLI::App& app, Action& action);
void add_ops_command(CLI::App& app, Action& action);
void add_check_command(CLI::App& app, Action& action);
/// Added below the noun `kmeans`.
void add_kmeans_run_command(CLI::App& kmeans, Action& action);
void add_kmeans_generate_command(CLI::App& kmeans, Action& action);
/// Added below the noun `parity`.
void add_parity_run_command(CLI::App& parity, Action& action);
/// Added below the noun `reproduce`.
void add_kmeans_exact_command(CLI::App& reproduce, Action& action);
void add_reproduce_parity_command(CLI::App& reproduce, Action& action);

/// Runs a command line: parses it, runs what it names, turns every failure into one line on standard error and an exit status.
[[nodiscard]] int run_program(int argc, const char* const* argv);

}  // namespace gradus::tools
