// Every registered op through every check, one line of output a failure.
#include <set>

#include "engine/autograd/op_check.hpp"
#include "engine/ops/registry.hpp"
#include "tests/catch.hpp"

using namespace gradus;

namespace {

void check_ops(std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    for (const CheckResult& result : check_op(*all_ops()[i])) {
      INFO(result.op << ": " << result.check << ": " << result.detail);
      CHECK(result.passed);
      CHECK((result.cases > 0 || result.check == "definition"));
    }
}

}  // namespace

// One test a family would be a list to keep; one a half of the ops lets two run side by side.
TEST_CASE("every op of the first half passes every check", "[ops]") { check_ops(0, all_ops().size() / 2); }
TEST_CASE("every op of the second half passes every check", "[ops]") { check_ops(all_ops().size() / 2, all_ops().size()); }

TEST_CASE("every op has a name of its own", "[ops]") {
  std::set<std::string_view> names;
  for (const OpDef* op : all_ops()) CHECK(names.insert(op->name).second);
}

TEST_CASE("an unknown op name lists near ones", "[ops]") {
  CHECK(find_op("softmax").name == std::string_view("softmax"));
  try {
    (void)find_op("softmx");
    FAIL("no error");
  } catch (const ValueError& error) {
    CHECK(error.hint().find("'softmax'") != std::string::npos);
  }
}
