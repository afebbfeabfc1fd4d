// gradus kmeans generate: the published data set, as a file.
#include <memory>

#include "models/kmeans/data.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/json_output.hpp"
#include "tools/kmeans_results.hpp"
#include "tools/outputs.hpp"

namespace gradus::tools {
namespace {

struct GenerateOptions {
  CommonOptions common;
  std::string file;
  index_t points = 10000, dimensions = 2, clusters = 5;
  std::uint64_t seed = 1;
};

std::string described(const GenerateOptions& options) {
  JsonResult json;
  json.set("seed", options.seed);
  json.set("file", options.file);
  json.set("points", options.points);
  json.set("dimensions", options.dimensions);
  json.set("clusters", options.clusters);
  return json.text();
}

int generate(const GenerateOptions& options) {
  apply_common_options(options.common);
  Outputs outputs(options.common.force);
  outputs.claim("OUT", options.file);
  outputs.claim("--json", options.common.json);
  const Tensor points = kmeans::published_mixture(options.points, options.dimensions, options.clusters, Random(options.seed));
  return work([&] {
    outputs.set("OUT", array_file(points, options.file));
    if (outputs.wanted("--json")) outputs.set("--json", described(options));
    outputs.commit();
    if (!options.common.quiet && !outputs.use_standard_output())
      print(cat(options.points, " points in ", options.dimensions, " dimensions around ", options.clusters, " centres, seed ", options.seed, ": ", options.file,
                "\n"));
    return exit_success;
  });
}

}  // namespace

void add_kmeans_generate_command(CLI::App& kmeans, Action& action) {
  CLI::App* command = kmeans.add_subcommand("generate",
                                            "Write points of the published mixture (Figure 3): centres uniform on the unit cube, normal points with standard "
                                            "deviation 0.1 around them, every dimension scaled to [0, 1], in random order");
  const auto options = std::make_shared<GenerateOptions>();
  command->add_option("OUT", options->file, "The file, comma-separated; npy when the name ends in .npy; - is standard output")->required();
  const CLI::Range sizes(index_t{1}, index_t{1} << 40), few(index_t{1}, index_t{1} << 20);
  command->add_option("--points", options->points, "How many points")->type_name("N")->check(sizes)->capture_default_str();
  command->add_option("--dimensions", options->dimensions, "In how many dimensions")->type_name("D")->check(few)->capture_default_str();
  command->add_option("--clusters,-k", options->clusters, "Around how many centres")->type_name("K")->check(sizes)->capture_default_str();
  add_seed_option(*command, options->seed);
  add_common_options(*command, options->common);
  command->callback([options, &action] { action = [options] { return generate(*options); }; });
}

}  // namespace gradus::tools
