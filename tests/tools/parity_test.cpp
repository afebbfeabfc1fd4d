// gradus parity run and gradus reproduce parity, as a user runs them.
#include "tests/tools/program.hpp"

using namespace gradus::testing;

TEST_CASE("two hidden bits are found in one step and told in every form") {
  const TemporaryFolder folder;
  const std::string picture = folder.file("p.svg");
  const auto json = run_json({"parity", "run", "--bits", "256", "--embedding", "64", "--eta", "oracle", "--seeds", "5", "--plot", picture});
  CHECK(json["success_rate"].get<double>() >= 0.6);
  CHECK(json["trainable_parameters"] == 128);
  REQUIRE(json["seeds"].size() == 5);
  for (const auto& seed : json["seeds"]) {
    for (const char* name : {"loss_before", "loss_after", "worst_case_loss", "attention", "margin_condition", "success"}) CHECK(seed.contains(name));
    CHECK(seed["success"] == seed["margin_condition"]);
    if (seed["success"] == true) {
      CHECK(seed["worst_case_loss"].get<double>() < 1e-6);
      CHECK(seed["heads_at"][0] != seed["heads_at"][1]);
      CHECK(std::abs(seed["margin_predicted"].get<double>() / seed["margin_measured"].get<double>() - 1) < 0.6);
    }
  }
  const std::string svg = contents(picture);
  for (const char* part : {"<svg", "Attention before", "Attention after", "head 2", "gradus parity run --bits 256"}) CHECK_THAT(svg, says(part));
}

TEST_CASE("parity runs on samples, in batches, with other heads and attentions, the same for any threads") {
  const std::vector<std::string> samples{"parity",  "run", "--bits", "24",  "--embedding", "16", "--samples", "2048",
                                         "--batch", "512", "--eta",  "100", "--steps",     "20", "--seeds",   "2"};
  auto one = samples, two = samples;
  one.insert(one.end(), {"--threads", "1"});
  two.insert(two.end(), {"--threads", "2"});
  CHECK(run_json(one)["seeds"] == run_json(two)["seeds"]);
  const auto three = run_json({"parity", "run", "--bits", "12", "--embedding", "10", "--heads", "3", "--start", "independent", "--samples", "4096", "--eta",
                               "30", "--steps", "400", "--seeds", "1"});
  CHECK(three["seeds"][0]["attention"].size() == 3);
  const auto linear = run_json({"parity", "run", "--attention", "linear", "--eta", "0.1", "--seeds", "3"});
  CHECK(linear["success_rate"] == 0);
  const ProgramRun table = run_gradus({"parity", "run", "--seeds", "2", "--quiet"});
  CHECK(table.status == 0);
  CHECK(table.out.empty());
  CHECK_THAT(run_gradus({"parity", "run", "--seeds", "2"}).out, says("margins hold"));
}

TEST_CASE("bad options of parity are one clear line") {
  const std::vector<std::vector<std::string>> wrong{{"--eta", "0"},
                                                    {"--eta", "many"},
                                                    {"--samples", "none"},
                                                    {"--samples", "-3"},
                                                    {"--heads", "3"},
                                                    {"--bits", "0"},
                                                    {"--fresh"},
                                                    {"--batch", "5"},
                                                    {"--attention", "soft"},
                                                    {"--steps", "0"},
                                                    {"--heads", "3", "--samples", "9"},
                                                    {"--bits", "2", "--heads", "3", "--samples", "9", "--start", "independent"}};
  for (const auto& options : wrong) {
    std::vector<std::string> arguments{"parity", "run"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const ProgramRun run = run_gradus(arguments);
    INFO(options[0] << ": " << run.err);
    CHECK(run.status == 2);
    CHECK(lines_of(run.err).size() == 1);
    CHECK(run.out.empty());
  }
}

TEST_CASE("the quick reproduction of parity has its rows, page and verdict") {
  const TemporaryFolder folder;
  const std::string page = folder.file("page.html"), out = folder.file("out.json");
  const ProgramRun run = run_gradus({"reproduce", "parity", "--quick", "--report", page, "--json", out});
  INFO(run.err);
  REQUIRE(run.status == 0);
  const auto json = nlohmann::json::parse(contents(out));
  int judged = 0;
  for (const auto& row : json["rows"]) {
    for (const char* name : {"name", "published", "measured", "deviation", "seeds", "within", "note"}) CHECK(row.contains(name));
    if (row["within"].is_null()) continue;
    ++judged;
    INFO(row.dump());
    CHECK(row["within"] == true);
  }
  CHECK(judged > 20);
  CHECK(json["parameters"].size() == 2);
  for (const char* part : {"<svg", "Loss in the plane", "Attention of both heads", "gradus reproduce parity --quick"}) CHECK_THAT(contents(page), says(part));
}
