// Arrows between folders point one way only.

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/catch.hpp"
#include "tests/structure/sources.hpp"

namespace fs = std::filesystem;
using gradus::structure::include_violations;

namespace {

// A source tree in a temporary folder.
class FabricatedTree {
 public:
  FabricatedTree() : root_(fs::temp_directory_path() / ("gradus-includes-" + std::to_string(getpid()))) { fs::create_directories(root_); }
  ~FabricatedTree() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  FabricatedTree(const FabricatedTree&) = delete;
  FabricatedTree& operator=(const FabricatedTree&) = delete;

  void add(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  [[nodiscard]] const fs::path& root() const { return root_; }

 private:
  fs::path root_;
};

}  // namespace

TEST_CASE("no_include_points_up") {
  const auto violations = include_violations(GRADUS_SOURCE_DIR);
  for (const auto& violation : violations) UNSCOPED_INFO(violation);
  CHECK(violations.empty());
}

TEST_CASE("an_include_that_points_up_is_found") {
  const FabricatedTree tree;
  tree.add("engine/core/low.hpp", "#pragma once\n  #  include \"engine/tensor/high.hpp\"\n");
  tree.add("engine/tensor/high.hpp", "#include \"engine/core/low.hpp\"\n#include <vector>\n");
  const auto violations = include_violations(tree.root());
  REQUIRE(violations.size() == 1);
  CHECK(violations[0] == "engine/core/low.hpp:2: \"engine/tensor/high.hpp\" points up: engine/core may not know engine/tensor");
}

TEST_CASE("every_forbidden_arrow_is_found") {
  const std::string rooms[] = {"engine/core", "engine/kernels", "engine/tensor", "engine/autograd", "engine/ops", "optim", "models", "tools"};
  for (std::size_t from = 0; from < std::size(rooms); ++from) {
    for (std::size_t to = 0; to < std::size(rooms); ++to) {
      const FabricatedTree tree;
      tree.add(rooms[from] + "/a.cpp", "#include \"" + rooms[to] + "/b.hpp\"\n");
      tree.add(rooms[to] + "/b.hpp", "#pragma once\n");
      INFO(rooms[from] << " includes " << rooms[to]);
      CHECK(include_violations(tree.root()).size() == (to > from ? 1 : 0));
    }
  }
  const FabricatedTree tree;
  tree.add("engine/io/a.cpp", "#include \"engine/autograd/b.hpp\"\n");
  tree.add("engine/autograd/b.hpp", "#include \"engine/io/c.hpp\"\n");
  tree.add("engine/io/c.hpp", "#include \"engine/tensor/d.hpp\"\n");
  tree.add("engine/tensor/d.hpp", "#pragma once\n");
  CHECK(include_violations(tree.root()).size() == 2);
}

TEST_CASE("includes_are_written_from_the_root_and_libraries_stay_in_their_folder") {
  const FabricatedTree tree;
  tree.add("engine/core/a.hpp", "#pragma once\n");
  tree.add("engine/core/relative.cpp", "#include \"a.hpp\"\n");
  tree.add("engine/core/angle.cpp", "#include <engine/core/a.hpp>\n");
  tree.add("engine/core/missing.cpp", "#include \"engine/core/none.hpp\"\n");
  tree.add("engine/core/library.cpp", "#include <fmt/format.h>\n#include <xsimd/xsimd.hpp>\n");
  tree.add("engine/kernels/library.cpp", "#include <xsimd/xsimd.hpp>\n");
  tree.add("engine/stray.cpp", "int stray();\n");
  CHECK(include_violations(tree.root()).size() == 6);
}
