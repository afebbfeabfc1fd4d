#pragma once
// Suggestions for misspelt names, used wherever a name is looked up.

#include <span>
#include <string>
#include <string_view>

namespace gradus {

/// A hint such as "did you mean 'exp', 'exp1m'?" from up to three candidates within a few edits, or "known: a, b, ..." (at
/// most twelve) when none is near.
[[nodiscard]] std::string suggest_names(std::string_view name, std::span<const std::string> candidates);

}  // namespace gradus
