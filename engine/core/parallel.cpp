#include "engine/core/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "engine/core/error.hpp"

namespace gradus {
namespace {

// ---- floating-point control --------------------------------------------------------------------------------------------

std::uint64_t control_word() noexcept {
#if defined(__x86_64__)
  return _mm_getcsr();
#elif defined(__aarch64__)
  std::uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word;
#else
  return 0;
#endif
}

void set_control_word(std::uint64_t word) noexcept {
#if defined(__x86_64__)
  _mm_setcsr(static_cast<unsigned>(word));
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"(word));
#else
  (void)word;
#endif
}

#if defined(__aarch64__)
constexpr std::uint64_t flush_bits = 1u << 24;  // FZ
#else
constexpr std::uint64_t flush_bits = 0x8040;  // FTZ and DAZ
#endif
// The sticky exception flags of a thread are its own; only modes travel.
constexpr std::uint64_t mode_bits = ~std::uint64_t{0x3F};

void pause_briefly() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

constexpr int spins = 2000;  // some tens of microseconds: the gap between two loops of a training step

// Returns when `ready()`; spins first, for waits are usually shorter than a sleep.
template <class T, class Ready>
void wait_until(const std::atomic<T>& value, Ready&& ready) noexcept {
  for (int i = 0; i < spins; ++i) {
    if (ready(value.load(std::memory_order_acquire))) return;
    pause_briefly();
  }
  for (T seen = value.load(std::memory_order_acquire); !ready(seen); seen = value.load(std::memory_order_acquire)) value.wait(seen, std::memory_order_acquire);
}

// ---- one loop ----------------------------------------------------------------------------------------------------------

// Lives on the caller's stack. Workers join under the pool's mutex while it is listed; the caller unlists it and waits for them.
struct Job {
  index_t n, grain, chunks;
  void (*body)(void*, index_t, index_t);
  void* context;
  std::uint64_t modes;
  std::atomic<index_t> next{0};
  std::atomic<int> workers{0};
  std::mutex error_mutex{};
  index_t error_chunk = 0;
  std::exception_ptr error{};

  [[nodiscard]] bool has_work() const noexcept { return next.load(std::memory_order_relaxed) < chunks; }

  void run_chunks() noexcept {
    for (index_t chunk = next.fetch_add(1, std::memory_order_relaxed); chunk < chunks; chunk = next.fetch_add(1, std::memory_order_relaxed)) {
      try {
        body(context, chunk * grain, std::min(n, (chunk + 1) * grain));
      } catch (...) {
        const std::lock_guard guard(error_mutex);
        if (!error || chunk < error_chunk) {
          error = std::current_exception();
          error_chunk = chunk;
        }
        next.store(chunks, std::memory_order_relaxed);  // the rest need not run
      }
    }
  }
};

// ---- the pool ----------------------------------------------------------------------------------------------------------

class Pool {
 public:
  ~Pool() { stop(); }

  void run(Job& job) {
    {
      const std::lock_guard guard(mutex_);
      start_workers();
      jobs_.push_back(&job);
    }
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    job.run_chunks();
    {
      const std::lock_guard guard(mutex_);
      std::erase(jobs_, &job);
    }
    wait_until(job.workers, [](int left) { return left == 0; });
  }

  void set_threads(int threads) {
    stop();
    threads_.store(threads, std::memory_order_relaxed);
  }
  [[nodiscard]] int threads() const noexcept { return threads_.load(std::memory_order_relaxed); }

 private:
  void start_workers() {
    jobs_.reserve(64);
    while (static_cast<int>(workers_.size()) < threads() - 1) workers_.emplace_back([this] { work(); });
  }

  void stop() {
    std::vector<std::thread> leaving;
    {
      const std::lock_guard guard(mutex_);
      stopping_.store(true, std::memory_order_relaxed);
      leaving.swap(workers_);
    }
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    for (std::thread& worker : leaving) worker.join();
    stopping_.store(false, std::memory_order_relaxed);
  }

  // A job that still has chunks, joined; null when there is none.
  Job* join() {
    const std::lock_guard guard(mutex_);
    for (Job* job : jobs_)
      if (job->has_work()) {
        job->workers.fetch_add(1, std::memory_order_relaxed);
        return job;
      }
    return nullptr;
  }

  void work() {
    const std::uint64_t own_modes = control_word();
    std::uint64_t seen = 0;
    while (!stopping_.load(std::memory_order_relaxed)) {
      seen = epoch_.load(std::memory_order_acquire);
      while (Job* job = join()) {
        set_control_word(job->modes);
        job->run_chunks();
        set_control_word(own_modes);
        if (job->workers.fetch_sub(1, std::memory_order_acq_rel) == 1) job_done(job);
      }
      wait_until(epoch_, [&](std::uint64_t now) { return now != seen || stopping_.load(std::memory_order_relaxed); });
    }
  }

  // The caller may be gone the moment the count is 0; only the address is used to wake it.
  static void job_done(Job* job) noexcept { job->workers.notify_all(); }

  std::mutex mutex_;
  std::vector<Job*> jobs_;
  std::vector<std::thread> workers_;
  std::atomic<std::uint64_t> epoch_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int> threads_{initial_threads()};

  static int initial_threads() {
    const char* text = std::getenv("GRADUS_THREADS");
    if (text == nullptr || *text == '\0') return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    char* end = nullptr;
    const long value = std::strtol(text, &end, 10);
    if (*end != '\0' || value < 1 || value > 256) throw ValueError("threads", cat("GRADUS_THREADS is '", text, "'"), "give a number from 1 to 256");
    return static_cast<int>(value);
  }
};

Pool& pool() {
  static Pool instance;
  return instance;
}

}  // namespace

void parallel_for(index_t n, index_t grain, void (*body)(void*, index_t, index_t), void* context) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  const index_t chunks = (n - 1) / grain + 1;
  if (chunks == 1 || pool().threads() == 1) {
    for (index_t chunk = 0; chunk < chunks; ++chunk) body(context, chunk * grain, std::min(n, (chunk + 1) * grain));
    return;
  }
  Job job{.n = n, .grain = grain, .chunks = chunks, .body = body, .context = context, .modes = control_word() & mode_bits};
  pool().run(job);
  if (job.error) std::rethrow_exception(job.error);
}

int thread_count() { return pool().threads(); }

void set_thread_count(int threads) {
  if (threads < 1 || threads > 256) throw ValueError("threads", cat(threads, " threads"), "give 1 to 256");
  pool().set_threads(threads);
}

FlushDenormals::FlushDenormals() noexcept : saved_(control_word()) { set_control_word(saved_ | flush_bits); }
FlushDenormals::~FlushDenormals() { set_control_word((control_word() & ~flush_bits) | (saved_ & flush_bits)); }
bool flushes_denormals() noexcept { return (control_word() & flush_bits) == flush_bits; }

}  // namespace gradus
