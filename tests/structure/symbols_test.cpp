// Objects of different instruction sets share no code. A weak function without the instruction set in its name would be merged by
// the linker with its twins of other objects, and an old machine might be handed the AVX-512 one.

#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.hpp"

namespace fs = std::filesystem;

namespace {

// Symbols in the output of `nm -C --defined-only` that other objects can see and whose names lack `tag`.
std::vector<std::string> untagged_symbols(const std::string& listing, const std::string& tag) {
  const std::string visible = "TWVuDBRGS";
  std::vector<std::string> found;
  std::istringstream in(listing);
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string address, type, name;
    if (!(fields >> address >> type) || type.size() != 1 || visible.find(type) == std::string::npos) continue;
    std::getline(fields >> std::ws, name);
    // A pointer to the unwinder that the compiler emits for every object; not code.
    if (name == "DW.ref.__gxx_personality_v0") continue;
    if (name.find(tag) == std::string::npos) found.push_back(type + " " + name);
  }
  return found;
}

std::string nm(const fs::path& object) {
  const std::string command = "nm -C --defined-only '" + object.string() + "' 2>&1";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string output;
  char buffer[4096];
  for (std::size_t n = 0; pipe && (n = std::fread(buffer, 1, sizeof buffer, pipe.get())) > 0;) output.append(buffer, n);
  return output;
}

std::vector<fs::path> objects_of(const std::string& isa) {
  std::vector<fs::path> objects;
  const fs::path folder = fs::path(GRADUS_BINARY_DIR) / "engine/kernels/CMakeFiles" / ("gradus_kernels_" + isa + ".dir");
  if (fs::is_directory(folder))
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".o") objects.push_back(entry.path());
  return objects;
}

}  // namespace

TEST_CASE("avx_objects_hold_no_untagged_shared_symbols") {
#if defined(__x86_64__)
  const std::string type = GRADUS_BUILD_TYPE, sanitize = GRADUS_SANITIZE;
  if (type != "Release" || !sanitize.empty()) {
    WARN("skipped: only Release builds inline everything that is meant to be inlined; this is " << type << " " << sanitize);
    return;
  }
  for (const std::string isa : {"avx2", "avx512"}) {
    const auto objects = objects_of(isa);
    REQUIRE_FALSE(objects.empty());
    for (const auto& object : objects) {
      const std::string listing = nm(object);
      // The table of the family itself: proof that nm understood the object.
      CHECK(listing.find(isa) != std::string::npos);
      for (const auto& symbol : untagged_symbols(listing, isa)) {
        INFO(object.filename().string() << " of " << isa << ": " << symbol);
        CHECK(symbol.empty());
      }
    }
  }
#else
  WARN("skipped: this machine has one instruction set beside the baseline");
#endif
}

TEST_CASE("an_untagged_symbol_is_found") {
  const std::string listing =
      "0000000000000000 W std::vector<float>::push_back(float)\n"
      "0000000000000010 W xsimd::batch<float, xsimd::fma3<xsimd::avx2> >::load(float const*)\n"
      "0000000000000020 T gradus::kernels::avx2::gemm()\n"
      "0000000000000030 t local_helper()\n"
      "0000000000000040 V DW.ref.__gxx_personality_v0\n"
      "0000000000000050 u gradus::detail::table\n";
  const auto found = untagged_symbols(listing, "avx2");
  REQUIRE(found.size() == 2);
  CHECK(found[0] == "W std::vector<float>::push_back(float)");
  CHECK(found[1] == "u gradus::detail::table");
  CHECK(untagged_symbols(listing, "avx512").size() == 4);
}
