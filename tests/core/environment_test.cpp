// GRADUS_THREADS is read once in a process, so each case runs this program anew with one hidden test.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "engine/core/error.hpp"
#include "engine/core/parallel.hpp"
#include "tests/catch.hpp"

using namespace gradus;

namespace {

// What the hidden test `name` prints between angle brackets, in a process with GRADUS_THREADS set to `threads`.
std::string output_with(const std::string& threads, const std::string& name) {
  std::array<char, 4096> program{};
  REQUIRE(readlink("/proc/self/exe", program.data(), program.size() - 1) > 0);
  const std::string command = "GRADUS_THREADS='" + threads + "' '" + program.data() + "' '" + name + "' 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  REQUIRE(pipe);
  std::string text;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) text += static_cast<char>(c);
  const auto begin = text.find('<'), end = text.rfind('>');
  INFO(text);
  REQUIRE((begin != std::string::npos && end != std::string::npos));
  return text.substr(begin + 1, end - begin - 1);
}

// Made before the pool, so that it goes after it.
struct LoopAtExit {
  ~LoopAtExit() {
    index_t sum = 0;
    parallel_for(5, 1, [&](index_t i, index_t) { sum += i; });
    std::cout << "<" << sum << ">" << std::endl;
  }
};

}  // namespace

TEST_CASE("hidden: print the number of threads", "[.child]") {
  std::cout << "<";
  try {
    std::cout << thread_count();
  } catch (const ValueError& error) {
    std::cout << error.what();
  }
  std::cout << ">" << std::endl;
}

TEST_CASE("hidden: run a loop after the pool has ended", "[.child]") {
  static const LoopAtExit at_exit;
  parallel_for(100, 1, [](index_t, index_t) {});
}

TEST_CASE("GRADUS_THREADS chooses the number of threads", "[parallel]") {
  CHECK(output_with("3", "hidden: print the number of threads") == "3");
  CHECK(output_with("256", "hidden: print the number of threads") == "256");
  CHECK(std::stoi(output_with("", "hidden: print the number of threads")) >= 1);
}

TEST_CASE("a wrong GRADUS_THREADS is an error that says what is right", "[parallel]") {
  for (const std::string threads : {"0", "-2", "257", "two", "2x", " 2", "2.5", "99999999999999999999"})
    CHECK(output_with(threads, "hidden: print the number of threads") == "[threads] GRADUS_THREADS is '" + threads + "'. Hint: give a number from 1 to 256.");
}

TEST_CASE("the pool ends cleanly and loops of later destructors still run", "[parallel]") {
  CHECK(output_with("4", "hidden: run a loop after the pool has ended") == "10");
}
