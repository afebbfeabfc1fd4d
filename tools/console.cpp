#include "tools/console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>
#include <utility>

namespace gradus::tools {
namespace {

volatile std::sig_atomic_t stop_requested = 0;
int output_error = 0;  // errno of the first failed write

void request_stop(int) { stop_requested = 1; }

std::string duration(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  const auto minutes = static_cast<long long>(seconds / 60);
  return minutes < 100 ? fmt::format("{} min", minutes) : fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() && output_error == 0) output_error = errno;
}

void finish_output() {
  if (std::fflush(stdout) != 0 && output_error == 0) output_error = errno;
  const int code = std::exchange(output_error, 0);
  if (code != 0 && code != EPIPE) throw FailedRun("standard output cannot be written: " + std::generic_category().message(code));
}

void complain(std::string_view message) {
  std::string line = "gradus: ";
  for (const char c : message) line += static_cast<unsigned char>(c) < 0x20 || c == '\x7f' ? ' ' : c;
  line += '\n';
  std::fputs(line.c_str(), stderr);
}

void handle_signals() {
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one has its usual effect
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

Progress::Progress(std::string what, std::string unit, index_t total, bool quiet)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(total),
      quiet_(quiet),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (shown_ && terminal_) std::fputs("\r\033[K", stderr);
}

void Progress::advance(index_t count) {
  done_ += count;
  if (stop_requested) throw Interrupted();
  const Clock::time_point now = Clock::now();
  const auto interval = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(3000);
  if (quiet_ || done_ >= total_ || now - last_ < interval) return;
  last_ = now;
  show(now);
}

void Progress::show(Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - start_).count(), rate = static_cast<double>(done_) / seconds;
  const std::string left = duration(static_cast<double>(total_ - done_) / rate);
  const std::string line = fmt::format("{}: {} {} of {}, {:.3g} a second, {} left", what_, unit_, done_, total_, rate, left);
  std::fputs(terminal_ ? ("\r\033[K" + line).c_str() : (line + "\n").c_str(), stderr);
  std::fflush(stderr);
  shown_ = true;
}

}  // namespace gradus::tools
