#pragma once
// Working memory of a kernel. Only kernel implementations include it; internal linkage, see simd.hpp.

#include <cstddef>

#include "engine/core/memory.hpp"
#include "engine/kernels/simd.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

/// 64-byte aligned room for elements of T until it leaves scope: a little of it on the stack, since a small product takes less time
/// than the pool, the rest from the pool.
template <class T>
class Scratch {
 public:
  explicit Scratch(index_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > sizeof local_) block_ = MemoryPool::instance().allocate(bytes);
  }
  ~Scratch() {
    if (block_ != nullptr) MemoryPool::instance().release(block_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] T* data() { return static_cast<T*>(block_ != nullptr ? block_ : static_cast<void*>(local_)); }

 private:
  alignas(64) std::byte local_[2048];
  void* block_ = nullptr;
};

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
