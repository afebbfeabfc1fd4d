#pragma once
// Rare things that are lawful but worth knowing about: counted, never silent.

#include <cstdint>

namespace gradus {

enum class Event : std::uint8_t {
  zero_weight_row,  ///< a row of normalised linear weights summed to zero
  skipped_step,     ///< gradients were not finite, and the optimiser was not to step
  count
};

/// Adds to an event's count; thread-safe.
void count_event(Event event, std::int64_t times = 1) noexcept;
/// How often it happened in this process.
[[nodiscard]] std::int64_t event_count(Event event) noexcept;

}  // namespace gradus
