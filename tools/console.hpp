#pragma once
// Standard output and standard error: tables for people, warnings, progress, interruption.

#include <chrono>
#include <stdexcept>
#include <string>
#include <string_view>

#include "engine/core/dtype.hpp"

namespace gradus::tools {

/// Exit statuses of the program.
inline constexpr int exit_success = 0, exit_failed_run = 1, exit_bad_usage = 2, exit_interrupted = 130;

/// A run that started and failed; errors of any other kind mean bad usage or input.
struct FailedRun : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The user asked to stop (Ctrl-C or a termination signal).
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

/// Runs the work of a command: errors in here are failures of the run, no longer of its usage.
template <class F>
decltype(auto) work(F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    throw FailedRun(error.what());
  }
}

/// Writes to standard output.
void print(std::string_view text);
/// Flushes standard output. A reader that went away (`| head`) is no error; a full disk is a FailedRun.
void finish_output();
/// One line on standard error, "gradus: " in front; control characters are replaced.
void complain(std::string_view message);

/// From now on signals to stop end the work at its next report of progress, so that temporary files are removed; a second
/// one ends the program at once. A closed pipe on standard output is no signal any more, so that result files get written.
void handle_signals();

/// Progress of a loop on standard error, with rate and time left: a line that rewrites itself on a terminal, else one line
/// every few seconds. Nothing when quiet.
class Progress {
 public:
  /// `unit` names what is counted ("layer"), `total` how many there will be.
  Progress(std::string what, std::string unit, index_t total, bool quiet);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();
  /// Counts `count` more; throws Interrupted when the user asked to stop.
  void advance(index_t count = 1);

 private:
  using Clock = std::chrono::steady_clock;
  void show(Clock::time_point now);

  std::string what_, unit_;
  index_t total_, done_ = 0;
  bool quiet_, terminal_, shown_ = false;
  Clock::time_point start_, last_;
};

}  // namespace gradus::tools
