// gradus check: every check of every op, driven by the definitions.
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "engine/autograd/op_check.hpp"
#include "engine/ops/registry.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/json_output.hpp"
#include "tools/outputs.hpp"

namespace gradus::tools {
namespace {

struct CheckOptions {
  CommonOptions common;
  std::vector<std::string> names;
};

std::string check_line(const CheckResult& result) {
  return fmt::format("{}  {:<20} {:<34} {:>3} case{}{}{}\n", result.passed ? "ok  " : "FAIL", result.op, result.check, result.cases,
                     result.cases == 1 ? " " : "s", result.detail.empty() ? "" : "  ", result.detail);
}

Json check_json(const CheckResult& result) {
  return {{"op", result.op}, {"check", result.check}, {"passed", result.passed}, {"cases", result.cases}, {"detail", result.detail}};
}

int check(const CheckOptions& options) {
  apply_common_options(options.common);
  std::vector<const OpDef*> ops;
  for (const std::string& name : options.names) ops.push_back(&find_op(name));
  if (ops.empty()) ops = all_ops();
  Outputs outputs(options.common.force);
  outputs.claim("--json", options.common.json);
  JsonResult json;
  const bool talk = !options.common.quiet && !outputs.use_standard_output();
  const auto start = std::chrono::steady_clock::now();
  return work([&] {
    Json rows = Json::array();
    index_t failed = 0;
    Progress progress("check", "op", static_cast<index_t>(ops.size()), options.common.quiet || talk);  // the lines themselves show it
    for (const OpDef* op : ops) {
      for (const CheckResult& result : check_op(*op)) {
        failed += !result.passed;
        if (talk) print(check_line(result));
        rows.push_back(check_json(result));
      }
      progress.advance();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (talk) print(fmt::format("{} checks of {} ops, {} failed, {:.1f} s\n", rows.size(), ops.size(), failed, seconds));
    json.number("seconds", seconds);
    json.set("failed", failed);
    json.set("rows", std::move(rows));
    outputs.set("--json", json.text());
    outputs.commit();
    if (failed > 0) throw FailedRun(fmt::format("{} of the checks failed", failed));
    return exit_success;
  });
}

}  // namespace

void add_check_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("check", "Check ops: gradients against finite differences, views, fused against composite, threads, instruction sets");
  const auto options = std::make_shared<CheckOptions>();
  command->add_option("OP", options->names, "Only these ops (default: all)");
  add_common_options(*command, options->common);
  command->callback([options, &action] { action = [options] { return check(*options); }; });
}

}  // namespace gradus::tools
