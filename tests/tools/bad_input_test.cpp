// Everything a user can get wrong ends with one clear line on standard error, status 2 and no file touched.

#include "tests/tools/program.hpp"

using namespace gradus::testing;

namespace {

// A folder with a result file of an earlier run in it, which a refused run must leave alone.
class Refusal {
 public:
  Refusal() { folder_.put("old.json", "precious"); }
  [[nodiscard]] const TemporaryFolder& folder() const { return folder_; }

  // Runs `kmeans run FILE --clusters K` with results that must not appear.
  void expect(const std::string& file, const std::vector<std::string>& more, const std::vector<std::string>& said) {
    const std::size_t files = folder_.count();
    std::vector<std::string> words{"kmeans", "run", file};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--labels", folder_.file("labels.csv"), "--json", folder_.file("old.json"), "--force"});
    check(run_gradus(words), said);
    CHECK(folder_.count() == files);
    CHECK(contents(folder_.file("old.json")) == "precious");
  }

  static void check(const ProgramRun& run, const std::vector<std::string>& said) {
    INFO(run.err);
    CHECK(run.status == 2);
    CHECK(run.out.empty());
    CHECK(lines_of(run.err).size() == 1);
    for (const std::string& part : said) CHECK_THAT(run.err, says(part));
  }

 private:
  TemporaryFolder folder_;
};

const std::vector<std::string> two{"--clusters", "2"};

}  // namespace

TEST_CASE("a file that is missing, a directory or empty is refused by name") {
  Refusal refusal;
  const TemporaryFolder& folder = refusal.folder();
  refusal.expect(folder.file("missing.csv"), two, {"missing.csv", "no such file"});
  refusal.expect(folder.file(""), two, {"is a directory"});
  refusal.expect(folder.put("empty.csv", ""), two, {"empty.csv", "empty"});
  refusal.expect(folder.put("blank.csv", "\n\n"), two, {"blank.csv"});
  refusal.expect(folder.put("header.csv", "x,y\n"), two, {"header.csv"});
}

TEST_CASE("cells that are no finite numbers are named by line and column") {
  Refusal refusal;
  const TemporaryFolder& folder = refusal.folder();
  refusal.expect(folder.put("ragged.csv", "1,2\n3,4\n5\n"), two, {"ragged.csv", "line 3"});
  refusal.expect(folder.put("text.csv", "1,2\n3,4\n5,six\n7,8\n"), {"--clusters", "2", "--label-column", "none"}, {"text.csv", "line 3", "column 2", "six"});
  refusal.expect(folder.put("nan.csv", "1,2\n3,nan\n5,6\n"), two, {"nan.csv", "line 2", "column 2"});
  refusal.expect(folder.put("inf.csv", "1,2\n3,4\ninf,6\n"), two, {"inf.csv", "line 3", "column 1"});
  refusal.expect(folder.put("large.csv", "1,2\n3,1e39\n5,6\n"), {"--clusters", "2", "--dtype", "f32"}, {"1e+39", "f32", "f64"});
}

TEST_CASE("npy files that claim too much, hold no points or no finite ones are refused") {
  Refusal refusal;
  const TemporaryFolder& folder = refusal.folder();
  const auto npy = [](const std::string& shape, const std::string& data) {
    std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(117, ' ');
    return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(118) + '\0' + header + "\n" + data;
  };
  refusal.expect(folder.put("claim.npy", npy("(402653184, 1)", "12345678")), two, {"claim.npy"});
  refusal.expect(folder.put("flat.npy", npy("(5, 0)", "")), two, {"flat.npy", "no columns"});
  refusal.expect(folder.put("none.npy", npy("(0, 5)", "")), two, {"none.npy", "no rows"});
  refusal.expect(folder.put("cube.npy", npy("(1, 1, 1)", std::string(8, '\0'))), two, {"cube.npy", "(rows, columns)"});
  const std::string one("\0\0\0\0\0\0\xf0\x3f", 8), nan("\0\0\0\0\0\0\xf8\x7f", 8);
  refusal.expect(folder.put("nan.npy", npy("(3, 2)", one + one + one + nan + one + one)), two, {"nan.npy", "row 2", "column 2"});
}

TEST_CASE("a number of clusters that the points do not allow is refused") {
  Refusal refusal;
  const std::string file = refusal.folder().put("points.csv", two_clusters);
  refusal.expect(file, {"--clusters", "0"}, {"0 clusters of 6 points", "1 to 6"});
  refusal.expect(file, {"--clusters", "-1"}, {"-1 clusters"});
  refusal.expect(file, {"--clusters", "7"}, {"7 clusters of 6 points"});
  refusal.expect(file, {"--clusters", "two"}, {"--clusters"});
  refusal.expect(file, {}, {"--clusters"});
}

TEST_CASE("options with values outside their domain are refused") {
  Refusal refusal;
  const std::string file = refusal.folder().put("points.csv", two_clusters);
  for (const char* value : {"0", "-1", "nan", "1e999", "warm", ""})
    refusal.expect(file, {"-k", "2", "--inverse-temperature", value}, {"--inverse-temperature"});
  refusal.expect(file, {"-k", "2", "--threads", "0"}, {"--threads"});
  refusal.expect(file, {"-k", "2", "--threads", "257"}, {"--threads"});
  refusal.expect(file, {"-k", "2", "--layers", "-1"}, {"--layers"});
  refusal.expect(file, {"-k", "2", "--seed", "-1"}, {"--seed"});
  refusal.expect(file, {"-k", "2", "--init", "kmeans"}, {"--init", "did you mean 'kmeans++'"});
  refusal.expect(file, {"-k", "2", "--construction", "euclidian"}, {"did you mean 'euclidean'"});
  refusal.expect(file, {"-k", "2", "--label-column", "species"}, {"species"});
  Refusal::check(run_gradus({"info"}, {"GRADUS_ISA=avx3"}), {"avx3"});
}

TEST_CASE("full self-attention over very many points is refused unless asked for") {
  Refusal refusal;
  std::string many;
  for (int i = 0; i < 20001; ++i) many += std::to_string(i) + "\n";
  refusal.expect(refusal.folder().put("many.csv", many), {"-k", "2", "--self-attention", "full"}, {"20001", "--allow-full"});
}

TEST_CASE("an output that cannot be written is found before the work starts") {
  const TemporaryFolder folder;
  const std::string file = folder.put("points.csv", two_clusters), there = folder.put("there.csv", "old");
  const auto refused = [&](const std::vector<std::string>& outputs, const std::vector<std::string>& said) {
    std::vector<std::string> words{"kmeans", "run", file, "-k", "2"};
    words.insert(words.end(), outputs.begin(), outputs.end());
    const std::size_t files = folder.count();
    Refusal::check(run_gradus(words), said);
    CHECK(folder.count() == files);
    CHECK(contents(file) == two_clusters);
    CHECK(contents(there) == "old");
  };
  refused({"--json", folder.file("no/such/folder.json")}, {"folder"});
  refused({"--labels", folder.file("")}, {"directory"});
  refused({"--centres", there}, {"exists", "--force"});
  refused({"--labels", folder.file("new.csv"), "--centres", there}, {"exists"});
  refused({"--labels", file, "--force"}, {"--labels", "the input"});
  refused({"--labels", folder.file("a.csv"), "--centres", folder.file("./a.csv")}, {"is also the file of --labels"});
  refused({"--json", "-", "--labels", "-"}, {"standard output"});
}

TEST_CASE("unknown options, commands and ops are answered with near ones") {
  Refusal::check(run_gradus({"kmeans", "run", "points.csv", "--cluster", "2"}), {"--cluster", "did you mean '--clusters'"});
  Refusal::check(run_gradus({"kmeens", "run"}), {"kmeens", "did you mean 'kmeans'"});
  Refusal::check(run_gradus({"kmeans", "rum"}), {"rum", "did you mean 'run'"});
  Refusal::check(run_gradus({"check", "sofmax"}), {"did you mean 'softmax'"});
  Refusal::check(run_gradus({"info", "--no-such-flag"}), {"--no-such-flag"});
  Refusal::check(run_gradus({"info", "now"}), {"now"});
  Refusal::check(run_gradus({}), {"--help"});
  Refusal::check(run_gradus({"kmeans"}), {"--help"});
}

TEST_CASE("a full disk fails the run, not the usage") {
  if (!std::filesystem::exists("/dev/full")) return;
  const ProgramRun run = shell("\"$gradus\" info > /dev/full");
  CHECK(run.status == 1);
  CHECK_THAT(run.err, says("standard output"));
}
