// From a command line to an exit status.
#include <memory>
#include <new>
#include <sstream>

#include "engine/core/text.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/version.hpp"

namespace gradus::tools {
namespace {

// Breaks the descriptions of options into lines that fit beside their names.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(34); }
  std::string make_option_desc(const CLI::Option* option) const override {
    constexpr std::size_t widest = 86;
    std::string text, line;
    std::istringstream words(CLI::Formatter::make_option_desc(option));
    for (std::string word; words >> word;) {
      if (!line.empty() && line.size() + 1 + word.size() > widest) {
        text += line + "\n";
        line.clear();
      }
      line += (line.empty() ? "" : " ") + word;
    }
    return text + line;
  }
};

void add_commands(CLI::App& app, Action& action) {
  app.formatter(std::make_shared<HelpFormatter>());  // commands added below inherit it
  app.set_version_flag("--version", std::string("gradus ") + version());
  app.require_subcommand(1);
  add_info_command(app, action);
  add_ops_command(app, action);
  add_check_command(app, action);
  CLI::App* kmeans = app.add_subcommand("kmeans", "Clustering by the k-means transformer, whose layers are iterations of Lloyd's algorithm");
  kmeans->require_subcommand(1);
  add_kmeans_run_command(*kmeans, action);
  add_kmeans_generate_command(*kmeans, action);
  CLI::App* parity = app.add_subcommand("parity", "Two hidden bits among many, found in one gradient step by two heads of attention");
  parity->require_subcommand(1);
  add_parity_run_command(*parity, action);
  CLI::App* reproduce = app.add_subcommand("reproduce", "Published results, repeated and compared");
  reproduce->require_subcommand(1);
  add_kmeans_exact_command(*reproduce, action);
  add_reproduce_parity_command(*reproduce, action);
}

// The command that the line got to before something in it was not understood.
const CLI::App* deepest_command(const CLI::App* app) {
  for (;;) {
    const auto chosen = app->get_subcommands();
    if (chosen.empty()) return app;
    app = chosen.front();
  }
}

std::string full_name(const CLI::App* command) {
  return command->get_parent() ? full_name(command->get_parent()) + " " + command->get_name() : command->get_name();
}

// Wrong words are reported before missing ones: a misspelt --clusters is also a missing one.
void refuse_unknown_word(const CLI::App& app) {
  const CLI::App* command = deepest_command(&app);
  const auto rest = app.remaining(true);
  if (rest.empty()) return;
  const std::string& word = rest.front();
  const bool is_option = word.size() > 1 && word.front() == '-';
  std::vector<std::string> known;
  if (is_option) {
    for (const CLI::Option* option : command->get_options())
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  } else {
    for (const CLI::App* below : command->get_subcommands({})) known.push_back(below->get_name());
  }
  const std::string name = full_name(command);
  if (!is_option && known.empty()) throw ValueError(name, "does not know what to do with '" + word + "'", "see " + name + " --help");
  throw ValueError(name, (is_option ? "no option '" : "no command '") + word + "'", suggest_names(word, known));
}

// A noun without a verb.
void require_command(const CLI::App& app) {
  const CLI::App* command = deepest_command(&app);
  std::string known;
  for (const CLI::App* below : command->get_subcommands({})) known += (known.empty() ? "" : ", ") + below->get_name();
  const std::string name = full_name(command);
  if (!known.empty()) throw ValueError(name, "names no command", "one of " + known + "; see " + name + " --help");
}

int parse_and_run(CLI::App& app, const Action& action, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answered) {  // --help, --version
    app.exit(answered);
    finish_output();
    return exit_success;
  } catch (const CLI::ParseError& error) {
    refuse_unknown_word(app);
    require_command(app);
    const std::string name = full_name(deepest_command(&app));
    throw ValueError(name, error.what(), "see " + name + " --help");
  }
  const int status = action();
  finish_output();
  return status;
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  handle_signals();
  try {
    CLI::App app("Gradus: a reverse-mode autodiff tensor engine with SIMD kernels for CPUs, and the transformers built on it", "gradus");
    Action action;
    add_commands(app, action);
    return parse_and_run(app, action, argc, argv);
  } catch (const Interrupted& error) {
    complain(error.what());
    return exit_interrupted;
  } catch (const FailedRun& error) {
    complain(error.what());
    return exit_failed_run;
  } catch (const Error& error) {
    complain(error.what());
    return exit_bad_usage;
  } catch (const std::bad_alloc&) {
    complain("out of memory");
    return exit_failed_run;
  } catch (const std::exception& error) {
    complain(error.what());
    return exit_failed_run;
  }
}

}  // namespace gradus::tools
