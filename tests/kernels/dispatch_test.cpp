// Choosing an instruction set, at run time and by GRADUS_ISA.

#include <cstdlib>
#include <filesystem>

#include "engine/core/error.hpp"
#include "tests/catch.hpp"
#include "tests/kernels/exact.hpp"

using namespace gradus;
using namespace gradus::testing;
using kernels::Isa;

namespace {

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const ValueError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("the_baseline_is_always_there_and_every_available_set_can_be_selected") {
  CHECK(kernels::available(Isa::baseline));
  for (const Isa isa : instruction_sets()) {
    const UseIsa use(isa);
    CHECK(kernels::active_isa() == isa);
    const float x = 2;
    float y = 0;
    kernels::active<float>().elementwise.unary[static_cast<std::size_t>(kernels::Unary::square)](&x, &y, 1);
    CHECK(y == 4);
  }
}

TEST_CASE("selecting_a_set_that_is_not_there_is_an_error_that_names_those_that_are") {
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::neon}) {
    if (kernels::available(isa)) continue;
    const Isa before = kernels::active_isa();
    const std::string message = message_of([isa] { kernels::select_isa(isa); });
    CHECK(message.find(kernels::name_of(isa)) != std::string::npos);
    CHECK(message.find("baseline") != std::string::npos);
    CHECK(kernels::active_isa() == before);
  }
}

// The variable is read once, so that each value needs a process of its own: this executable, running this test.
TEST_CASE("GRADUS_ISA_names_the_instruction_set") {
  const char* wanted = std::getenv("GRADUS_ISA");
  if (wanted != nullptr && std::string(wanted) == "quantum") {
    CHECK(message_of([] { (void)kernels::active_isa(); }).find("\"quantum\"") != std::string::npos);
  } else if (wanted != nullptr) {
    CHECK(kernels::name_of(kernels::active_isa()) == std::string(wanted));
  } else {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    for (const char* name : {"baseline", "quantum"}) {
      INFO(name);
      CHECK(std::system(("GRADUS_ISA=" + std::string(name) + " '" + self + "' GRADUS_ISA_names_the_instruction_set > /dev/null").c_str()) == 0);
    }
  }
}
