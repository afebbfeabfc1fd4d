#include "tests/tools/program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

namespace gradus::testing {
namespace {

void redirect(int to, const std::string& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ::dup2(file, to) < 0) ::_exit(126);
}

ProgramRun run(std::vector<std::string> words, const std::vector<std::string>& environment) {
  const TemporaryFolder folder;
  const std::string out = folder.file("out"), err = folder.file("err");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    redirect(STDOUT_FILENO, out);
    redirect(STDERR_FILENO, err);
    for (const std::string& entry : environment) {
      const std::size_t equals = entry.find('=');
      ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), contents(out), contents(err)};
}

}  // namespace

ProgramRun run_gradus(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  std::vector<std::string> words{GRADUS_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return run(words, environment);
}

ProgramRun shell(const std::string& command) { return run({"/bin/sh", "-c", "gradus='" GRADUS_PROGRAM "'; " + command}, {}); }

nlohmann::json run_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--json", "-"});
  const ProgramRun result = run_gradus(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return nlohmann::json::parse(result.out);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace gradus::testing
