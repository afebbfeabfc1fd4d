#include "engine/core/events.hpp"

#include <array>
#include <atomic>

namespace gradus {
namespace {
std::array<std::atomic<std::int64_t>, static_cast<std::size_t>(Event::count)> counts;
}  // namespace

void count_event(Event event, std::int64_t times) noexcept { counts[static_cast<std::size_t>(event)].fetch_add(times, std::memory_order_relaxed); }
std::int64_t event_count(Event event) noexcept { return counts[static_cast<std::size_t>(event)].load(std::memory_order_relaxed); }

}  // namespace gradus
