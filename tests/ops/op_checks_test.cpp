// Every registered op through every check: one test case an op family, one line of output a failure.
#include "engine/autograd/op_check.hpp"
#include "engine/ops/registry.hpp"
#include "tests/catch.hpp"

using namespace gradus;

namespace {

void check_family(std::string_view family) {
  int seen = 0;
  for (const OpDef* op : all_ops()) {
    if (family != op->family) continue;
    ++seen;
    for (const CheckResult& result : check_op(*op)) {
      INFO(result.op << ", " << result.check << ": " << result.detail);
      CHECK(result.passed);
      CHECK((result.cases > 0 || result.check == "definition"));
    }
  }
  CHECK(seen > 0);
}

}  // namespace

TEST_CASE("elementwise ops pass every check", "[ops]") { check_family("elementwise"); }
TEST_CASE("logic ops pass every check", "[ops]") { check_family("logic"); }
TEST_CASE("reductions pass every check", "[ops]") { check_family("reduce"); }
TEST_CASE("layout ops pass every check", "[ops]") { check_family("layout"); }
TEST_CASE("indexing ops pass every check", "[ops]") { check_family("indexing"); }
TEST_CASE("linear algebra ops pass every check", "[ops]") { check_family("linear algebra"); }
TEST_CASE("maps from scores to weights pass every check", "[ops]") { check_family("normalize"); }
TEST_CASE("distances pass every check", "[ops]") { check_family("distance"); }
TEST_CASE("random ops pass every check", "[ops]") { check_family("random"); }
TEST_CASE("attention passes every check", "[ops]") { check_family("attention"); }

TEST_CASE("every op belongs to a family that is checked and has a name of its own", "[ops]") {
  const std::vector<std::string> families{"elementwise",    "logic",     "reduce",   "layout", "indexing",
                                          "linear algebra", "normalize", "distance", "random", "attention"};
  std::vector<std::string> names;
  for (const OpDef* op : all_ops()) {
    CHECK(std::find(families.begin(), families.end(), op->family) != families.end());
    CHECK(std::find(names.begin(), names.end(), op->name) == names.end());
    names.emplace_back(op->name);
  }
}

TEST_CASE("an unknown op name lists near ones", "[ops]") {
  CHECK(&find_op("softmax") != nullptr);
  try {
    (void)find_op("softmx");
    FAIL("no error");
  } catch (const ValueError& error) {
    CHECK(error.hint().find("'softmax'") != std::string::npos);
  }
}
