#pragma once
// What was built, and with what.

namespace gradus::tools {

/// The version of this program, such as "0.1.0".
[[nodiscard]] const char* version() noexcept;
/// The compiler that built it, such as "g++ 12.2.0".
[[nodiscard]] const char* compiler() noexcept;

}  // namespace gradus::tools
