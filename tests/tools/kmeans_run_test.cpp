// What `gradus kmeans run` finds, prints and writes.

#include <cmath>
#include <set>

#include "tests/tools/program.hpp"

using namespace gradus::testing;

namespace {

std::string points_file(const TemporaryFolder& folder) { return folder.put("points.csv", two_clusters); }

}  // namespace

TEST_CASE("two plain clusters are found and written in all forms") {
  const TemporaryFolder folder;
  const std::string labels = folder.file("labels.csv"), centres = folder.file("centres.csv"), json_file = folder.file("out.json"),
                    plot = folder.file("out.svg");
  const ProgramRun run = run_gradus(
      {"kmeans", "run", points_file(folder), "-k", "2", "--compare", "lloyd", "--labels", labels, "--centres", centres, "--json", json_file, "--plot", plot});
  INFO(run.err);
  REQUIRE(run.status == 0);
  CHECK(run.err.empty());

  const auto json = nlohmann::json::parse(contents(json_file));
  CHECK(json["objective"].get<double>() == Approx(8.0 / 3));
  CHECK(json["log_objective_trace"].size() == 11);
  CHECK(json["log_objective_trace"].back().get<double>() == Approx(std::log(8.0 / 3)));
  CHECK(json["max_centre_difference"].get<double>() <= 1e-12 * 11);
  CHECK(json["assignment_agreement"] == 1.0);
  CHECK(json["seconds"].get<double>() >= 0);
  CHECK(json["seed"] == 1);
  CHECK(json["threads"].get<int>() >= 1);
  CHECK(json["isa"].is_string());
  CHECK(json["version"].is_string());
  CHECK(json["inverse_temperature"].is_null());
  CHECK(json["notes"]["inverse_temperature"].is_string());

  const auto label_lines = lines_of(contents(labels));
  REQUIRE(label_lines.size() == 6);
  CHECK(label_lines[0] == label_lines[1]);
  CHECK(label_lines[0] == label_lines[2]);
  CHECK(label_lines[3] == label_lines[5]);
  CHECK(label_lines[0] != label_lines[3]);
  for (std::size_t i = 0; i < 6; ++i) CHECK(json["labels"][i].get<int>() == std::stoi(label_lines[i]));

  const auto near = json["labels"][0].get<std::size_t>();
  CHECK(json["centres"][near][0].get<double>() == Approx(1.0 / 3));
  CHECK(json["centres"][1 - near][1].get<double>() == Approx(10 + 1.0 / 3));
  const auto centre_lines = lines_of(contents(centres));
  REQUIRE(centre_lines.size() == 2);
  CHECK(std::stod(centre_lines[near]) == json["centres"][near][0].get<double>());  // shortest exact form: the same bits

  CHECK_THAT(contents(plot), says("<svg"));
}

TEST_CASE("the table has a line for the start and for every layer, with Lloyd beside it when compared") {
  const TemporaryFolder folder;
  const auto rows = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"kmeans", "run", points_file(folder), "-k", "2", "--layers", "3"};
    words.insert(words.end(), more.begin(), more.end());
    return run_gradus(words).out;
  };
  const std::string plain = rows({}), compared = rows({"--compare", "lloyd"});
  for (const char* word : {"layer", "objective", "ln objective", "moved", "ties", "empty", "seed 1"}) CHECK_THAT(plain, says(word));
  CHECK_THAT(plain, !says("Lloyd"));
  for (const char* word : {"Lloyd", "centre diff", "other labels", "100 %"}) CHECK_THAT(compared, says(word));
  std::vector<std::string> layers;
  for (const std::string& line : lines_of(plain)) {
    const std::string word = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    if (!word.empty() && std::isdigit(static_cast<unsigned char>(word.front()))) layers.push_back(word.substr(0, word.find(' ')));
  }
  CHECK(layers == std::vector<std::string>{"0", "1", "2", "3"});
  CHECK(rows({"--quiet"}).empty());
}

TEST_CASE("both constructions and all switches give Lloyd's result in the limit") {
  const TemporaryFolder folder;
  const std::string points = folder.file("points.npy");
  REQUIRE(run_gradus({"kmeans", "generate", points, "--points", "300", "--dimensions", "3", "--clusters", "4", "--seed", "7"}).status == 0);
  for (const char* construction : {"euclidean", "dot-product"})
    for (const char* self : {"identity", "full"})
      for (const char* update : {"linear", "softmax"}) {
        INFO(construction << ", " << self << ", " << update);
        const auto json = run_json(
            {"kmeans", "run", points, "-k", "4", "--construction", construction, "--self-attention", self, "--centre-update", update, "--compare", "lloyd"});
        CHECK(json["max_centre_difference"].get<double>() <= 1e-12);
        CHECK(json["assignment_agreement"] == 1.0);
        CHECK(json["construction"] == construction);
      }
}

TEST_CASE("a low inverse temperature moves the centres away from Lloyd's, a high one hardly") {
  const TemporaryFolder folder;
  const std::string points = folder.file("points.csv");
  REQUIRE(run_gradus({"kmeans", "generate", points, "--points", "500", "--seed", "3"}).status == 0);
  const auto difference = [&](const char* temperature) {
    return run_json({"kmeans", "run", points, "-k", "5", "--inverse-temperature", temperature, "--compare", "lloyd"})["max_centre_difference"].get<double>();
  };
  CHECK(difference("1") > 0.05);
  CHECK(difference("1e6") < 0.01);
}

TEST_CASE("starts, seeds and precision change what they should") {
  const TemporaryFolder folder;
  const std::string points = folder.file("points.csv");
  REQUIRE(run_gradus({"kmeans", "generate", points, "--points", "200", "--seed", "3"}).status == 0);
  const auto start = [&](const char* init, const char* seed) {
    return run_json({"kmeans", "run", points, "-k", "5", "--layers", "0", "--init", init, "--seed", seed})["centres"];
  };
  CHECK(start("first", "1") == start("first", "2"));
  std::set<std::string> different;
  for (const char* init : {"first", "random", "kmeans++", "farthest"}) different.insert(start(init, "1").dump());
  CHECK(different.size() == 4);
  CHECK(start("random", "1") == start("random", "1"));
  CHECK(start("random", "1") != start("random", "2"));
  const auto single = run_json({"kmeans", "run", points, "-k", "5", "--dtype", "f32"}),
             twice = run_json({"kmeans", "run", points, "-k", "5", "--dtype", "f64"});
  CHECK(single["objective"].get<double>() == Approx(twice["objective"].get<double>()).epsilon(1e-5));
  CHECK(single["centres"] != twice["centres"]);
}

TEST_CASE("results have the same bits for 1, 2 and 4 threads") {
  const TemporaryFolder folder;
  const std::string points = folder.file("points.npy");
  REQUIRE(run_gradus({"kmeans", "generate", points, "--points", "30000", "--dimensions", "3", "--seed", "3"}).status == 0);
  const auto centres = [&](int threads) {
    const auto json = run_json({"kmeans", "run", points, "-k", "7", "--inverse-temperature", "50", "--layers", "3", "--threads", std::to_string(threads)});
    CHECK(json["threads"] == threads);
    return json["centres"];
  };
  const auto one = centres(1);
  CHECK(centres(2) == one);
  CHECK(centres(4) == one);
}

TEST_CASE("an objective of zero has no logarithm and JSON says so") {
  const TemporaryFolder folder;
  const auto json = run_json({"kmeans", "run", points_file(folder), "-k", "6", "--compare", "lloyd", "--plot", folder.file("zero.svg")});
  CHECK(json["objective"] == 0.0);
  CHECK(json["log_objective_trace"].back().is_null());
  CHECK_THAT(json["notes"]["log_objective_trace"].get<std::string>(), says("minus infinity"));
  CHECK_THAT(contents(folder.file("zero.svg")), says("22 left out") && !says("nan"));
}

TEST_CASE("without a comparison its numbers are null with a note") {
  const TemporaryFolder folder;
  const auto json = run_json({"kmeans", "run", points_file(folder), "-k", "2"});
  CHECK(json["max_centre_difference"].is_null());
  CHECK(json["assignment_agreement"].is_null());
  CHECK_THAT(json["notes"]["assignment_agreement"].get<std::string>(), says("--compare lloyd"));
}

TEST_CASE("ties and empty clusters are reported with the layer that met them") {
  const TemporaryFolder folder;
  const std::string tied = folder.put("tied.csv", "0\n2\n1\n");  // the third point lies midway between the first two
  const auto json = run_json({"kmeans", "run", tied, "-k", "2", "--init", "first", "--layers", "1", "--compare", "lloyd"});
  CHECK(json["tied_points"][0] == 1);
  CHECK_THAT(run_gradus({"kmeans", "run", tied, "-k", "2", "--init", "first", "--compare", "lloyd"}).out, says("layer 1 is the first with a tied"));
  const std::string twins = folder.put("twins.csv", "5\n5\n5\n9\n");
  const auto all_same = run_json({"kmeans", "run", twins, "-k", "4", "--init", "first", "--layers", "1"});
  CHECK(all_same["tied_points"][0] == 3);
}

TEST_CASE("files are overwritten only with --force, and results are read back from npy") {
  const TemporaryFolder folder;
  const std::string points = points_file(folder), centres = folder.file("centres.npy");
  const std::vector<std::string> words{"kmeans", "run", points, "-k", "2", "--centres", centres, "--labels", folder.file("labels.npy"), "--quiet"};
  REQUIRE(run_gradus(words).status == 0);
  CHECK(run_gradus(words).status == 2);
  std::vector<std::string> forced = words;
  forced.emplace_back("--force");
  CHECK(run_gradus(forced).status == 0);
  CHECK(run_json({"kmeans", "run", centres, "-k", "2"})["objective"] == 0.0);
  CHECK(run_json({"kmeans", "run", folder.file("labels.npy"), "-k", "2"})["points"] == 6);
}

TEST_CASE("headers, label columns and gzip are recognised or named") {
  const TemporaryFolder folder;
  const std::string labelled = folder.put("labelled.csv", "x,y,class\n0,0,a\n1,0,a\n10,10,b\n");
  CHECK(run_json({"kmeans", "run", labelled, "-k", "2"})["dimensions"] == 2);
  const std::string numbers = folder.put("numbers.csv", "1;2;3\n4;5;6\n7;8;9\n");
  CHECK(run_json({"kmeans", "run", numbers, "-k", "2"})["dimensions"] == 3);
  CHECK(run_json({"kmeans", "run", numbers, "-k", "2", "--label-column", "last"})["dimensions"] == 2);
  CHECK(run_json({"kmeans", "run", numbers, "-k", "2", "--header", "yes"})["points"] == 2);
  CHECK(run_json({"kmeans", "run", numbers, "-k", "2", "--delimiter", "semicolon"})["dimensions"] == 3);
  REQUIRE(shell("gzip '" + numbers + "'").status == 0);
  CHECK(run_json({"kmeans", "run", numbers + ".gz", "-k", "2"})["points"] == 3);
}
