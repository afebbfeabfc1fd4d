#include "engine/core/parallel.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

#include "engine/core/error.hpp"

namespace gradus {
namespace {

constexpr int most_threads = 256;

// ---- floating-point control --------------------------------------------------------------------------------------------

#if defined(__x86_64__)
std::uint64_t control_word() noexcept { return _mm_getcsr(); }
void set_control_word(std::uint64_t word) noexcept { _mm_setcsr(static_cast<unsigned>(word)); }
constexpr std::uint64_t flush_bits = 0x8040;               // FTZ and DAZ
constexpr std::uint64_t mode_bits = ~std::uint64_t{0x3F};  // the sticky exception flags of a thread are its own; only modes travel
#elif defined(__aarch64__)
std::uint64_t control_word() noexcept {
  std::uint64_t word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
void set_control_word(std::uint64_t word) noexcept { __asm__ volatile("msr fpcr, %0" : : "r"(word)); }
constexpr std::uint64_t flush_bits = 1u << 24;  // FZ
constexpr std::uint64_t mode_bits = ~std::uint64_t{0};
#else
std::uint64_t control_word() noexcept { return 0; }
void set_control_word(std::uint64_t) noexcept {}
constexpr std::uint64_t flush_bits = 1;  // never set: denormals are kept
constexpr std::uint64_t mode_bits = 0;
#endif

// ---- waiting -----------------------------------------------------------------------------------------------------------

void pause_briefly() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Returns when the value passes `ready`. Spins first: the gap between two loops of a training step is shorter than a sleep.
template <class Ready>
void wait_until(const std::atomic<std::uint32_t>& value, const Ready& ready) noexcept {
  if (ready(value.load(std::memory_order_acquire))) return;
  using Clock = std::chrono::steady_clock;
  const auto patience = Clock::now() + std::chrono::microseconds(30);
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready(value.load(std::memory_order_acquire))) return;
      pause_briefly();
    }
  } while (Clock::now() < patience);
  for (std::uint32_t seen = value.load(std::memory_order_acquire); !ready(seen); seen = value.load(std::memory_order_acquire))
    value.wait(seen, std::memory_order_acquire);
}

// ---- one loop ----------------------------------------------------------------------------------------------------------

// Lives on the caller's stack. Whoever has claimed a chunk may use it until the chunk is counted as finished, and nobody else may.
struct Job {
  index_t n, grain, chunks;
  void (*body)(void*, index_t, index_t);
  void* context;
  std::uint64_t modes;
  std::mutex error_mutex{};
  index_t error_chunk = 0;
  std::exception_ptr error{};
};

void run_chunk(const Job& job, index_t chunk) {
  const index_t begin = chunk * job.grain;
  job.body(job.context, begin, begin + std::min(job.grain, job.n - begin));
}

// The part of a job that workers touch without having claimed anything; it belongs to the pool and so outlives every job.
// Decrementing `unclaimed` from above zero is the claim: it is valid for whichever job the place holds at that moment, so a worker
// that was put to sleep halfway can neither spoil a later job nor keep the caller waiting.
struct alignas(64) Place {
  std::atomic<index_t> unclaimed{0};
  std::atomic<std::uint32_t> finished{0};  // chunks done by workers, modulo 2^32
  Job* job = nullptr;                      // read after a claim only

  /// Claims a chunk for the calling thread: how many were left with it, or 0 when there are none.
  index_t claim() noexcept {
    if (unclaimed.load(std::memory_order_relaxed) <= 0) return 0;
    return std::max<index_t>(0, unclaimed.fetch_sub(1, std::memory_order_acquire));
  }

  /// Runs the chunk claimed as `left`. Returns how many chunks that settles: more than 1 when a failure gives up the rest.
  std::uint32_t run(index_t left) noexcept {
    const index_t chunk = job->chunks - left;
    try {
      run_chunk(*job, chunk);
      return 1;
    } catch (...) {
      return 1 + fail(chunk);
    }
  }

  // Chunks are claimed in order, so all below a failing one do run, and the lowest failure is the same on any number of threads.
  std::uint32_t fail(index_t chunk) noexcept {
    const std::lock_guard guard(job->error_mutex);
    if (!job->error || chunk < job->error_chunk) {
      job->error = std::current_exception();
      job->error_chunk = chunk;
    }
    return static_cast<std::uint32_t>(std::max<index_t>(0, unclaimed.exchange(0, std::memory_order_relaxed)));
  }
};

// ---- the pool ----------------------------------------------------------------------------------------------------------

class Pool {
 public:
  /// Runs all chunks of the job, or those up to the first failure.
  void run(Job& job) {
    if (threads() == 1) return run_alone(job);
    start_workers();
    const int bit = take_place();
    if (bit < 0) return run_alone(job);
    Place& place = places_[static_cast<std::size_t>(bit)];
    place.job = &job;
    place.finished.store(0, std::memory_order_relaxed);
    place.unclaimed.store(job.chunks, std::memory_order_release);
    wake(job.chunks - 1);
    std::uint32_t settled = 0;
    while (const index_t left = place.claim()) settled += place.run(left);
    const std::uint32_t by_workers = static_cast<std::uint32_t>(job.chunks) - settled;
    wait_until(place.finished, [&](std::uint32_t finished) { return finished == by_workers; });
    taken_.fetch_and(~(std::uint64_t{1} << bit), std::memory_order_release);
  }

  static void run_alone(const Job& job) {
    for (index_t chunk = 0; chunk < job.chunks; ++chunk) run_chunk(job, chunk);
  }

  [[nodiscard]] int threads() const noexcept { return threads_.load(std::memory_order_relaxed); }

  void set_threads(int threads) {
    const std::lock_guard guard(workers_mutex_);
    for (const std::thread& worker : workers_)
      if (worker.get_id() == std::this_thread::get_id()) throw ValueError("threads", "the number of threads was set inside a loop", "set it before");
    stopping_.store(true, std::memory_order_relaxed);
    wake(most_threads);
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    stopping_.store(false, std::memory_order_relaxed);
    started_.store(false, std::memory_order_relaxed);
    threads_.store(threads, std::memory_order_relaxed);
  }

 private:
  // A system that refuses a thread leaves us with fewer; the results are the same.
  void start_workers() {
    if (started_.load(std::memory_order_relaxed)) return;
    const std::lock_guard guard(workers_mutex_);
    try {
      while (static_cast<int>(workers_.size()) < threads() - 1) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
    }
    started_.store(true, std::memory_order_relaxed);
  }

  // The index of a free place, or -1 when as many loops are open at once as there are places.
  int take_place() noexcept {
    std::uint64_t taken = taken_.load(std::memory_order_relaxed);
    while (~taken != 0) {
      const int bit = std::countr_one(taken);
      if (taken_.compare_exchange_weak(taken, taken | std::uint64_t{1} << bit, std::memory_order_acquire, std::memory_order_relaxed)) return bit;
    }
    return -1;
  }

  // Wakes no more workers than there is work for.
  void wake(index_t wanted) noexcept {
    epoch_.fetch_add(1);
    if (wanted >= threads() - 1) return epoch_.notify_all();
    for (index_t i = 0; i < wanted; ++i) epoch_.notify_one();
  }

  void work() noexcept {
    for (;;) {
      const std::uint32_t seen = epoch_.load(std::memory_order_acquire);  // first, or the call to stop could be missed
      if (stopping_.load(std::memory_order_relaxed)) return;
      for (std::uint64_t open = taken_.load(std::memory_order_acquire); open != 0; open &= open - 1)
        help(places_[static_cast<std::size_t>(std::countr_zero(open))]);
      wait_until(epoch_, [&](std::uint32_t now) { return now != seen; });
    }
  }

  // The count may let the caller go: the notification after it is on memory of the pool, where a stray one does no harm.
  static void help(Place& place) noexcept {
    while (const index_t left = place.claim()) {
      set_control_word(place.job->modes);
      place.finished.fetch_add(place.run(left));
      place.finished.notify_one();
    }
  }

  static int initial_threads() {
    if (const char* text = std::getenv("GRADUS_THREADS"); text != nullptr && *text != '\0') {
      const std::string_view given(text);
      int threads = 0;
      const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), threads);
      if (error != std::errc{} || end != given.data() + given.size() || threads < 1 || threads > most_threads)
        throw ValueError("threads", cat("GRADUS_THREADS is '", given, "'"), cat("give a number from 1 to ", most_threads));
      return threads;
    }
    return std::clamp(cores(), 1, most_threads);
  }

  // The cores this process may run on, which can be fewer than the machine has.
  static int cores() noexcept {
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
#endif
    return static_cast<int>(std::thread::hardware_concurrency());
  }

  std::array<Place, 64> places_;
  alignas(64) std::atomic<std::uint64_t> taken_{0};  // bit i: place i holds a job
  alignas(64) std::atomic<std::uint32_t> epoch_{0};  // grows with every job, to wake workers
  alignas(64) std::atomic<bool> stopping_{false};
  std::atomic<bool> started_{false};
  std::atomic<int> threads_{initial_threads()};
  std::mutex workers_mutex_;
  std::vector<std::thread> workers_;
};

// At exit the workers end; the pool itself stays, for destructors of other static objects may still run loops, then alone.
struct EndWorkers {
  Pool& pool;
  ~EndWorkers() { pool.set_threads(1); }
};

Pool& pool() {
  static Pool* instance = new Pool;
  static const EndWorkers end_workers{*instance};
  return *instance;
}

}  // namespace

void parallel_for(index_t n, index_t grain, void (*body)(void*, index_t, index_t), void* context) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  const index_t chunks = (n - 1) / grain + 1;
  if (chunks == 1) return body(context, 0, n);
  Job job{.n = n, .grain = grain, .chunks = chunks, .body = body, .context = context, .modes = control_word() & mode_bits};
  pool().run(job);
  if (job.error) std::rethrow_exception(job.error);
}

int thread_count() { return pool().threads(); }

void set_thread_count(int threads) {
  if (threads < 1 || threads > most_threads) throw ValueError("threads", cat(threads, " threads"), cat("give 1 to ", most_threads));
  pool().set_threads(threads);
}

FlushDenormals::FlushDenormals() noexcept : saved_(control_word()) { set_control_word(saved_ | flush_bits); }
FlushDenormals::~FlushDenormals() { set_control_word((control_word() & ~flush_bits) | (saved_ & flush_bits)); }
bool flushes_denormals() noexcept { return (control_word() & flush_bits) == flush_bits; }

}  // namespace gradus
