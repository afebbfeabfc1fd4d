#pragma once
// Parallel loops over a small pool of our own. The partition is a function of the problem, never of the number of
// threads: chunk i covers [i * grain, min(n, (i + 1) * grain)), and whichever worker is free claims the next chunk.

#include <type_traits>

#include "engine/core/dtype.hpp"

namespace gradus {

/// Calls `body(context, begin, end)` once for every chunk of [0, n). With one chunk or one thread it runs on the caller,
/// chunk by chunk in order. The caller works too and waits for nothing but chunks that a worker has claimed; calls may nest
/// and may come from several host threads. When chunks throw, the exception of the lowest of them is rethrown here once all
/// claimed chunks have ended; chunks not yet claimed are dropped. Workers run every chunk with the floating-point
/// control word (flush modes) of its caller. A call allocates nothing.
void parallel_for(index_t n, index_t grain, void (*body)(void*, index_t, index_t), void* context);

/// The same for a callable `body(begin, end)`.
template <class F>
void parallel_for(index_t n, index_t grain, F&& body) {
  using Body = std::remove_reference_t<F>;
  if (n > 0 && n <= grain) return static_cast<void>(body(index_t{0}, n));  // tiny work is not worth an indirect call
  parallel_for(
      n, grain, [](void* f, index_t begin, index_t end) { (*static_cast<Body*>(f))(begin, end); }, const_cast<void*>(static_cast<const void*>(&body)));
}

/// Threads that loops may use, the caller included: GRADUS_THREADS when set (not a number from 1 to 256: a ValueError), else the
/// number of cores this process may use.
[[nodiscard]] int thread_count();
/// Sets it (at least 1, at most 256; otherwise a ValueError). Not to be called from inside a loop.
void set_thread_count(int threads);

/// While alive, this thread (and the workers of loops it starts) flush denormals to zero; the old mode returns after.
class FlushDenormals {
 public:
  FlushDenormals() noexcept;
  ~FlushDenormals();
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  std::uint64_t saved_;
};

/// True when the calling thread flushes denormals now.
[[nodiscard]] bool flushes_denormals() noexcept;

}  // namespace gradus
