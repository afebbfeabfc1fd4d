// gradus info: what was built and what this machine runs.
#include <fmt/format.h>

#include <memory>
#include <thread>

#include "engine/core/memory.hpp"
#include "engine/core/parallel.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/ops/registry.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/json_output.hpp"
#include "tools/outputs.hpp"
#include "tools/version.hpp"

namespace gradus::tools {
namespace {

using kernels::Isa;

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512, Isa::neon})
    if (kernels::available(isa)) names.emplace_back(kernels::name_of(isa));
  return names;
}

std::string info_json(const PoolStats& pool) {
  JsonResult json;
  json.set("isa_available", available_isas());
  json.set("cores", std::thread::hardware_concurrency());
  json.set("compiler", compiler());
  json.set("ops", all_ops().size());
  json.set("pool", {{"requests", pool.requests},
                    {"misses", pool.misses},
                    {"live_bytes", pool.live_bytes},
                    {"peak_bytes", pool.peak_bytes},
                    {"cached_bytes", pool.cached_bytes}});
  return json.text();
}

std::string info_text(const PoolStats& pool) {
  std::string isas;
  for (const std::string& name : available_isas()) isas += (isas.empty() ? "" : ", ") + name;
  return fmt::format(
      "gradus {}\n"
      "compiler          {}\n"
      "instruction set   {} (available: {}; GRADUS_ISA chooses)\n"
      "threads           {} of {} cores (--threads or GRADUS_THREADS chooses)\n"
      "ops               {}\n"
      "memory pool       {} requests, {} from the system; {} bytes live, {} at most, {} kept for reuse\n",
      version(), compiler(), kernels::name_of(kernels::active_isa()), isas, thread_count(), std::thread::hardware_concurrency(), all_ops().size(),
      pool.requests, pool.misses, pool.live_bytes, pool.peak_bytes, pool.cached_bytes);
}

int info(const CommonOptions& options) {
  apply_common_options(options);
  Outputs outputs(options.force);
  outputs.claim("--json", options.json);
  const PoolStats pool = MemoryPool::instance().stats();
  if (!options.quiet && !outputs.use_standard_output()) print(info_text(pool));
  outputs.set("--json", info_json(pool));
  outputs.commit();
  return exit_success;
}

}  // namespace

void add_info_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("info", "Version, compiler, instruction sets, threads, memory pool");
  const auto options = std::make_shared<CommonOptions>();
  add_common_options(*command, *options);
  command->callback([options, &action] { action = [options] { return info(*options); }; });
}

}  // namespace gradus::tools
