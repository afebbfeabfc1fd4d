// The published validation, repeated: its rows, its files, its verdict.

#include <cmath>
#include <limits>

#include "tests/tools/program.hpp"
#include "tools/reproduction.hpp"

using namespace gradus::testing;
using namespace gradus::tools;

TEST_CASE("quartiles interpolate between ordered values and never hide a NaN") {
  const Distribution d = distribution_of({4, 1, 3, 2});
  CHECK(d.min == 1);
  CHECK(d.lower_quartile == 1.75);
  CHECK(d.median == 2.5);
  CHECK(d.upper_quartile == 3.25);
  CHECK(d.max == 4);
  CHECK(distribution_of({7}).upper_quartile == 7);
  const double infinite = std::numeric_limits<double>::infinity();
  CHECK(distribution_of({-infinite, -infinite, -infinite}).median == -infinite);
  CHECK(std::isnan(distribution_of({1, std::nan(""), 2}).min));
  CHECK_THROWS_AS(distribution_of({}), gradus::ValueError);
}

TEST_CASE("a row keeps apart what is published, derived and only measured") {
  ReproductionRow row;
  row.name = "a";
  row.measured = 3;
  row.spread = distribution_of({3});
  CHECK(published_text(row) == "-");
  CHECK_FALSE(deviation(row).has_value());
  CHECK(reproduction_json({row})[0]["published"].is_null());
  CHECK(reproduction_json({row})[0]["within"].is_null());
  row.source = Source::derived;
  row.published = 2;
  CHECK(published_text(row) == "2 (derived)");
  CHECK(deviation(row) == 1);
  row.within = false;
  CHECK(reproduction_json({row})[0]["source"] == "derived");
  CHECK(reproduction_json({row})[0]["deviation"] == 1.0);
  CHECK_FALSE(all_within({row}));
  row.within = std::nullopt;
  CHECK(all_within({row}));
  row.measured = std::numeric_limits<double>::infinity();
  CHECK(reproduction_json({row})[0]["measured"].is_null());
}

TEST_CASE("the published validation is repeated with rows, a page and a verdict") {
  const TemporaryFolder folder;
  const std::string page = folder.file("page.html"), out = folder.file("out.json");
  const ProgramRun run = run_gradus({"reproduce", "kmeans-exact", "--seeds", "1", "--seed", "4", "--report", page, "--json", out});
  INFO(run.err);
  REQUIRE(run.status == 0);
  const auto json = nlohmann::json::parse(contents(out));
  for (const char* name : {"version", "seed", "threads", "isa", "seconds", "rows"}) CHECK(json.contains(name));
  CHECK(json["seed"] == 4);
  int judged = 0, limits = 0;
  for (const auto& row : json["rows"]) {
    for (const char* name : {"name", "published", "measured", "deviation", "seeds", "within", "note"}) CHECK(row.contains(name));
    CHECK(row["seeds"] == 1);
    CHECK_THAT(run.out, says(row["name"].get<std::string>()));
    if (row["within"].is_null()) continue;
    ++judged;
    INFO(row.dump());
    CHECK(row["within"] == true);
    limits += row["name"].get<std::string>().find("gamma inf") != std::string::npos;
  }
  CHECK(judged == 6);  // objective and agreement as published, and exactness of two constructions with either set of switches
  CHECK(limits == 4);
  const std::string html = contents(page);
  for (const char* part : {"<svg", "Lloyd", "published", "gradus reproduce kmeans-exact --seeds 1 --seed 4"}) CHECK_THAT(html, says(part));
}
