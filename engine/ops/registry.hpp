#pragma once
// Every op there is: what checks, benchmarks, listings and the studio go through.

#include <string_view>
#include <vector>

#include "engine/autograd/op.hpp"

namespace gradus {

/// All definitions, family by family.
[[nodiscard]] const std::vector<const OpDef*>& all_ops();
/// The definition of that name; an unknown one is a ValueError that lists near names.
[[nodiscard]] const OpDef& find_op(std::string_view name);

}  // namespace gradus
