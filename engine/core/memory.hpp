#pragma once
// The caching pool every tensor buffer comes from. A freed block is kept and given out again, so that a steady
// training loop asks the system for nothing; counters make that observable.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "engine/core/dtype.hpp"

namespace gradus {

/// Counters of the pool. All sizes in bytes.
struct PoolStats {
  std::int64_t requests = 0;      ///< blocks asked for since start
  std::int64_t misses = 0;        ///< of these, the ones that needed memory from the system
  std::int64_t live_bytes = 0;    ///< in use now
  std::int64_t peak_bytes = 0;    ///< most ever in use at once
  std::int64_t cached_bytes = 0;  ///< kept for reuse
};

/// Process-wide allocator of 64-byte aligned blocks with a cache of freed ones. Thread-safe.
class MemoryPool {
 public:
  [[nodiscard]] static MemoryPool& instance() noexcept { return instance_; }
  /// A block of at least `bytes` (0 gives a valid block), 64-byte aligned. Contents are unspecified; with poisoning
  /// on (default in debug builds) every 4- and 8-byte word is a NaN. Throws ValueError when the system has no memory.
  [[nodiscard]] void* allocate(std::size_t bytes);
  void release(void* block) noexcept;
  [[nodiscard]] PoolStats stats() const noexcept;
  /// Returns all cached blocks to the system.
  void trim() noexcept;
  /// Starts the peak anew from what is live now.
  void reset_peak() noexcept;
  void set_poison(bool on) noexcept;

 private:
  struct State;
  static State state_;
  static MemoryPool instance_;
};

/// Reference-counted storage of a tensor: a header in front of 64-byte aligned data, one pool block in all.
class Buffer {
 public:
  Buffer() = default;
  /// Fresh storage of `bytes`; see MemoryPool::allocate.
  [[nodiscard]] static Buffer allocate(std::size_t bytes);
  Buffer(const Buffer& other) noexcept : header_(other.header_) { retain(); }
  Buffer(Buffer&& other) noexcept : header_(std::exchange(other.header_, nullptr)) {}
  Buffer& operator=(const Buffer& other) noexcept {
    Buffer(other).swap(*this);
    return *this;
  }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() { drop(); }
  void swap(Buffer& other) noexcept { std::swap(header_, other.header_); }

  [[nodiscard]] explicit operator bool() const noexcept { return header_ != nullptr; }
  [[nodiscard]] std::byte* data() const noexcept { return reinterpret_cast<std::byte*>(header_) + sizeof(Header); }
  [[nodiscard]] std::size_t bytes() const noexcept { return header_->bytes; }
  /// Counts writes through any view of this storage; saved values compare it.
  [[nodiscard]] std::uint32_t version() const noexcept { return header_->version.load(std::memory_order_relaxed); }
  /// Two writers at once may count as one: what matters is that the number differs from before.
  void bump_version() const noexcept { header_->version.store(version() + 1, std::memory_order_relaxed); }
  /// True when this is the only reference.
  [[nodiscard]] bool unique() const noexcept { return header_->references.load(std::memory_order_acquire) == 1; }
  [[nodiscard]] bool same_as(const Buffer& other) const noexcept { return header_ == other.header_; }

 private:
  struct alignas(64) Header {
    std::atomic<std::uint32_t> references;
    std::atomic<std::uint32_t> version;
    std::size_t bytes;
  };
  void retain() const noexcept {
    if (header_) header_->references.fetch_add(1, std::memory_order_relaxed);
  }
  void drop() noexcept {
    if (header_ && header_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) MemoryPool::instance().release(header_);
  }
  Header* header_ = nullptr;
};

/// Standard allocator over the pool, so that growing vectors of a steady loop are cache hits too.
template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) noexcept {}
  [[nodiscard]] T* allocate(std::size_t n) {
    if (n > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw ValueError("memory", "size does not fit 64 bits");
    return static_cast<T*>(MemoryPool::instance().allocate(n * sizeof(T)));
  }
  void deallocate(T* p, std::size_t) noexcept { MemoryPool::instance().release(p); }
  template <class U>
  friend bool operator==(const PoolAllocator&, const PoolAllocator<U>&) noexcept {
    return true;
  }
};

}  // namespace gradus
