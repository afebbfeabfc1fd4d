// gradus ops: every op there is, from the registry.
#include <memory>

#include "engine/ops/registry.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/json_output.hpp"
#include "tools/outputs.hpp"
#include "tools/table_print.hpp"

namespace gradus::tools {
namespace {

struct OpsOptions {
  CommonOptions common;
  std::vector<std::string> names;
};

std::vector<const OpDef*> chosen_ops(const std::vector<std::string>& names) {
  if (names.empty()) return all_ops();
  std::vector<const OpDef*> ops;
  for (const std::string& name : names) ops.push_back(&find_op(name));
  return ops;
}

std::size_t case_count(const OpDef& op) { return op.cases ? op.cases().size() : 0; }

// Every vjp is made of differentiable ops, so what decides is what the first derivative is.
const char* second_derivative(const OpDef& op) {
  switch (op.gradient) {
    case GradientKind::exact: return "yes";
    case GradientKind::zero: return "zero";
    case GradientKind::surrogate: return "of the oracle";
  }
  return "?";
}

Json op_json(const OpDef& op) {
  return {{"name", op.name},
          {"family", op.family},
          {"formula", op.formula},
          {"shapes", op.shapes},
          {"dtypes", op.dtypes},
          {"law", op.law},
          {"gradient", name_of(op.gradient)},
          {"gradient_note", op.gradient_note},
          {"fused", op.fused_vjp != nullptr},
          {"second_derivative", second_derivative(op)},
          {"composite", op.composite != nullptr},
          {"composed", op.composed()},
          {"view", op.is_view},
          {"cases", case_count(op)}};
}

// The formulas are LaTeX and the laws sentences: they stand last and need no alignment.
std::string ops_table(const std::vector<const OpDef*>& ops) {
  TablePrinter table({"name", "family", "dtypes", "gradient", "second derivative", "fused", "composite", "cases", "shapes", "formula", "law"});
  for (const OpDef* op : ops)
    table.add_row({op->name, op->family, op->dtypes, name_of(op->gradient), second_derivative(*op), op->fused_vjp ? "yes" : "",
                   op->composed()  ? "only"
                   : op->composite ? "yes"
                                   : "",
                   cat(case_count(*op)), op->shapes, op->formula, op->law});
  return table.text();
}

int list_ops(const OpsOptions& options) {
  apply_common_options(options.common);
  const std::vector<const OpDef*> ops = chosen_ops(options.names);
  Outputs outputs(options.common.force);
  outputs.claim("--json", options.common.json);
  JsonResult json;
  Json list = Json::array();
  for (const OpDef* op : ops) list.push_back(op_json(*op));
  json.set("ops", std::move(list));
  if (!options.common.quiet && !outputs.use_standard_output()) print(ops_table(ops));
  outputs.set("--json", json.text());
  outputs.commit();
  return exit_success;
}

}  // namespace

void add_ops_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("ops", "List the ops: formula, law at the edges, what the gradient is, fused backward, composite forward, cases");
  const auto options = std::make_shared<OpsOptions>();
  command->add_option("OP", options->names, "Only these (default: all)");
  add_common_options(*command, options->common);
  command->callback([options, &action] { action = [options] { return list_ops(*options); }; });
}

}  // namespace gradus::tools
