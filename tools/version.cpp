#include "tools/version.hpp"

namespace gradus::tools {

const char* version() noexcept { return GRADUS_VERSION; }

const char* compiler() noexcept {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

}  // namespace gradus::tools
