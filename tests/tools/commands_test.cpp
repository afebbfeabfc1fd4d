// The commands that list and check, help texts, and the program's manners on pipes and terminals.

#include <regex>
#include <set>

#include "tests/tools/program.hpp"

using namespace gradus::testing;

TEST_CASE("help documents every option with its default") {
  const std::vector<std::vector<std::string>> commands{{"info"}, {"ops"}, {"check"}, {"kmeans", "run"}, {"kmeans", "generate"}, {"reproduce", "kmeans-exact"}};
  for (auto words : commands) {
    words.emplace_back("--help");
    const ProgramRun run = run_gradus(words);
    INFO(run.out);
    REQUIRE(run.status == 0);
    std::string entry;
    const auto check_entry = [&entry] {
      if (entry.find("--") == std::string::npos || entry.find("--help") != std::string::npos) return;
      INFO(entry);
      // CLI11 writes a default as =value, newer versions as [value]; ranges such as [1 - 256] have blanks.
      static const std::regex has_default(R"(default|=|REQUIRED|\[[^ \]]+\])");
      CHECK(std::regex_search(entry, has_default));
    };
    for (const std::string& line : lines_of(run.out)) {
      if (line.starts_with("  -")) {
        check_entry();
        entry.clear();
      }
      entry += line + "\n";
    }
    check_entry();
  }
}

TEST_CASE("info says what runs") {
  const auto json = run_json({"info", "--threads", "2"});
  CHECK(json["threads"] == 2);
  CHECK(json["ops"].get<int>() > 20);
  CHECK(json["pool"]["live_bytes"].is_number());
  const auto isas = json["isa_available"].get<std::vector<std::string>>();
  CHECK(std::set<std::string>(isas.begin(), isas.end()).count(json["isa"].get<std::string>()) == 1);
  const ProgramRun baseline = run_gradus({"info"}, {"GRADUS_ISA=" + isas.front()});
  CHECK_THAT(baseline.out, says("instruction set   " + isas.front()));
  CHECK_THAT(run_gradus({"--version"}).out, says(json["version"].get<std::string>()));
}

TEST_CASE("ops lists what the registry holds") {
  const auto json = run_json({"ops"});
  const ProgramRun table = run_gradus({"ops"});
  for (const auto& op : json["ops"]) {
    CHECK_FALSE(op["formula"].get<std::string>().empty());
    CHECK(op["cases"].get<int>() > 0);
    CHECK_THAT(table.out, says(op["name"].get<std::string>()));
  }
  const auto one = run_json({"ops", "softmax"});
  REQUIRE(one["ops"].size() == 1);
  CHECK(one["ops"][0]["gradient"] == "exact");
  CHECK(one["ops"][0]["fused"] == true);
}

TEST_CASE("check runs the checks of the ops named and says how each went") {
  const auto json = run_json({"check", "exp", "softmax"});
  CHECK(json["failed"] == 0);
  std::set<std::string> ops;
  for (const auto& row : json["rows"]) {
    CHECK(row["passed"] == true);
    ops.insert(row["op"].get<std::string>());
  }
  CHECK(ops == std::set<std::string>{"exp", "softmax"});
  const ProgramRun run = run_gradus({"check", "exp"});
  CHECK(lines_of(run.out).size() >= 3);
  CHECK_THAT(run.out, says("ok") && says("0 failed"));
}

TEST_CASE("output that is no terminal, and NO_COLOR, have no colour") {
  CHECK_THAT(run_gradus({"ops"}).out, !says("\033"));
  CHECK_THAT(run_gradus({"info"}, {"NO_COLOR=1"}).out, !says("\033"));
}

TEST_CASE("a reader that goes away is no failure and loses no result file") {
  const TemporaryFolder folder;
  const std::string points = folder.put("points.csv", two_clusters), labels = folder.file("labels.csv");
  const ProgramRun run =
      shell("{ \"$gradus\" kmeans run '" + points + "' -k 2 --layers 5000 --labels '" + labels + "'; echo $? > '" + folder.file("status") + "'; } | head -n 1");
  CHECK(contents(folder.file("status")) == "0\n");
  CHECK(run.err.empty());
  CHECK(lines_of(contents(labels)).size() == 6);
}

TEST_CASE("a run that is interrupted leaves no file behind") {
  const TemporaryFolder folder, results;
  const std::string points = folder.file("points.npy");
  REQUIRE(run_gradus({"kmeans", "generate", points, "--points", "20000"}).status == 0);
  const std::string command = "\"$gradus\" kmeans run '" + points + "' -k 5 --layers 1000000 --labels '" + results.file("labels.csv") + "' --quiet & ";
  const ProgramRun run = shell(command + "sleep 0.5; kill -INT $! 2>/dev/null || true; kill -TERM $!; wait $!");
  CHECK(run.status == 130);
  CHECK(results.count() == 0);
}
