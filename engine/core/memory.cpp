#include "engine/core/memory.hpp"

#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <type_traits>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GRADUS_ADDRESS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define GRADUS_ADDRESS_SANITIZER
#endif

// Under the address sanitizer a cached block may not be touched: use after release is found.
#if defined(GRADUS_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#define GRADUS_POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define GRADUS_UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define GRADUS_POISON(p, n) ((void)(p), (void)(n))
#define GRADUS_UNPOISON(p, n) ((void)(p), (void)(n))
#endif

namespace gradus {
namespace {

// In front of every block, so that release() knows where the block belongs; one cache line, which keeps the block aligned.
struct alignas(64) BlockHeader {
  BlockHeader* next;  // while cached
  std::size_t size;   // of the block, without this header
  std::uint32_t size_class;
};
static_assert(sizeof(BlockHeader) == 64);

constexpr std::size_t smallest = 128, huge_page = std::size_t{2} << 20;
constexpr std::uint32_t steps_per_octave = 4;  // a block is at most a quarter larger than asked for
constexpr std::uint32_t classes = 4 * 64;

// Classes are 128 * 2^(c / 4) * (1 + (c % 4) / 4).
std::size_t class_size(std::uint32_t c) { return (smallest / steps_per_octave * (steps_per_octave + c % steps_per_octave)) << (c / steps_per_octave); }

std::uint32_t class_of(std::size_t bytes) {
  if (bytes <= smallest) return 0;
  const auto octave = static_cast<std::uint32_t>(std::bit_width((bytes - 1) / smallest) - 1);
  const std::size_t unit = (smallest << octave) / steps_per_octave;
  const auto step = static_cast<std::uint32_t>((bytes - (smallest << octave) + unit - 1) / unit);
  return octave * steps_per_octave + step;
}

// Held for a few instructions only. A waiter yields soon: the holder may have lost its core.
class SpinLock {
 public:
  void lock() noexcept {
    for (int spins = 0; flag_.test_and_set(std::memory_order_acquire); ++spins)
      if (spins > 64) std::this_thread::yield();
  }
  void unlock() noexcept { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

void poison_with_nan(BlockHeader* block) { std::memset(block + 1, 0xFF, block->size); }  // all bits set is a NaN in f32 and f64

}  // namespace

struct MemoryPool::State {
  SpinLock lock;
  BlockHeader* cached[classes] = {};
  PoolStats stats;
#ifdef NDEBUG
  std::atomic<bool> poison{false};
#else
  std::atomic<bool> poison{true};
#endif

  BlockHeader* take_cached(std::uint32_t c) {
    const std::lock_guard guard(lock);
    ++stats.requests;
    BlockHeader* block = cached[c];
    if (block == nullptr) return nullptr;
    cached[c] = block->next;
    stats.cached_bytes -= static_cast<std::int64_t>(block->size);
    note_live(block->size);
    return block;
  }

  void note_live(std::size_t size) {
    stats.live_bytes += static_cast<std::int64_t>(size);
    if (stats.live_bytes > stats.peak_bytes) stats.peak_bytes = stats.live_bytes;
  }
};

namespace {

// Large blocks sit on huge pages: a temporary of a training step must not fault in thousands of small ones.
BlockHeader* from_system(std::uint32_t c) {
  const std::size_t size = class_size(c), total = size + sizeof(BlockHeader);
  const std::size_t alignment = total >= huge_page ? huge_page : 64;
  void* memory = std::aligned_alloc(alignment, (total + alignment - 1) / alignment * alignment);
  if (memory == nullptr) return nullptr;
#if defined(__linux__)
  if (alignment == huge_page) (void)madvise(memory, total, MADV_HUGEPAGE);
#endif
  auto* block = static_cast<BlockHeader*>(memory);
  block->next = nullptr;
  block->size = size;
  block->size_class = c;
  return block;
}

}  // namespace

// There before any constructor and, having no destructor, after every other: tensors with static lifetime release late.
constinit MemoryPool::State MemoryPool::state_;
constinit MemoryPool MemoryPool::instance_;
static_assert(std::is_trivially_destructible_v<MemoryPool>);

void* MemoryPool::allocate(std::size_t bytes) {
  State& s = state_;
  constexpr std::size_t most = std::size_t{1} << 56;
  const std::uint32_t c = bytes < most ? class_of(bytes) : 0;
  BlockHeader* block = bytes < most ? s.take_cached(c) : nullptr;
  if (block == nullptr) {
    if (bytes < most && (block = from_system(c)) == nullptr) {
      trim();
      block = from_system(c);
    }
    if (block == nullptr)
      throw ValueError("memory", cat("the system has no ", bytes, " bytes left (", stats().live_bytes, " in use)"), "use smaller sizes or fewer at once");
    const std::lock_guard guard(s.lock);
    ++s.stats.misses;
    s.note_live(block->size);
  }
  GRADUS_UNPOISON(block + 1, block->size);
  if (s.poison.load(std::memory_order_relaxed)) poison_with_nan(block);
  return block + 1;
}

void MemoryPool::release(void* memory) noexcept {
  if (memory == nullptr) return;
  State& s = state_;
  auto* block = static_cast<BlockHeader*>(memory) - 1;
  GRADUS_POISON(block + 1, block->size);
  const std::lock_guard guard(s.lock);
  block->next = s.cached[block->size_class];
  s.cached[block->size_class] = block;
  s.stats.live_bytes -= static_cast<std::int64_t>(block->size);
  s.stats.cached_bytes += static_cast<std::int64_t>(block->size);
}

PoolStats MemoryPool::stats() const noexcept {
  State& s = state_;
  const std::lock_guard guard(s.lock);
  return s.stats;
}

void MemoryPool::trim() noexcept {
  State& s = state_;
  const std::lock_guard guard(s.lock);
  for (BlockHeader*& first : s.cached)
    while (first != nullptr) {
      BlockHeader* block = std::exchange(first, first->next);
      s.stats.cached_bytes -= static_cast<std::int64_t>(block->size);
      GRADUS_UNPOISON(block + 1, block->size);
      std::free(block);
    }
}

void MemoryPool::reset_peak() noexcept {
  State& s = state_;
  const std::lock_guard guard(s.lock);
  s.stats.peak_bytes = s.stats.live_bytes;
}

void MemoryPool::set_poison(bool on) noexcept { state_.poison.store(on, std::memory_order_relaxed); }

Buffer Buffer::allocate(std::size_t bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() - sizeof(Header))
    throw ValueError("memory", cat(bytes, " bytes do not fit 64 bits"), "use smaller sizes");
  Buffer buffer;
  buffer.header_ = static_cast<Header*>(MemoryPool::instance().allocate(bytes + sizeof(Header)));
  new (&buffer.header_->references) std::atomic<std::uint32_t>(1);
  new (&buffer.header_->version) std::atomic<std::uint32_t>(0);
  buffer.header_->bytes = bytes;
  return buffer;
}

}  // namespace gradus
