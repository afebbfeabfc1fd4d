#pragma once
// Counts the calls of operator new in this program (counting_new.cpp replaces it).

namespace gradus::testing {

/// Calls of operator new, in any thread, since the program started.
[[nodiscard]] long news() noexcept;

}  // namespace gradus::testing
