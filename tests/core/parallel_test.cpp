#include "engine/core/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "engine/core/error.hpp"
#include "tests/catch.hpp"
#include "tests/core/counting_new.hpp"
#include "tests/use_threads.hpp"

using namespace gradus;
using gradus::testing::news;
using gradus::testing::UseThreads;

namespace {

using Chunks = std::vector<std::pair<index_t, index_t>>;

// The chunks that a loop ran, sorted.
Chunks chunks_of(index_t n, index_t grain) {
  Chunks chunks;
  std::mutex mutex;
  parallel_for(n, grain, [&](index_t begin, index_t end) {
    const std::lock_guard guard(mutex);
    chunks.emplace_back(begin, end);
  });
  std::sort(chunks.begin(), chunks.end());
  return chunks;
}

// A place where threads meet: arrive() returns true once `count` of them are there together, false when that takes too long.
class Meeting {
 public:
  explicit Meeting(int count) : missing_(count) {}
  bool arrive() {
    --missing_;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (missing_.load() > 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return missing_.load() <= 0;
  }

 private:
  std::atomic<int> missing_;
};

}  // namespace

TEST_CASE("chunks are fixed by the problem and each runs once, on any number of threads", "[parallel]") {
  for (const int threads : {1, 2, 3, 7}) {
    const UseThreads use(threads);
    for (const index_t n : {1, 2, 3, 7, 64, 1000, 4097})
      for (const index_t grain : {1, 2, 3, 16, 999, 1000, 5000}) {
        Chunks expected;
        for (index_t begin = 0; begin < n; begin += grain) expected.emplace_back(begin, std::min(n, begin + grain));
        CAPTURE(threads, n, grain);
        CHECK(chunks_of(n, grain) == expected);
      }
  }
}

TEST_CASE("a loop over nothing runs nothing and a grain below one counts as one", "[parallel]") {
  const UseThreads use(2);
  CHECK(chunks_of(0, 4).empty());
  CHECK(chunks_of(-3, 4).empty());
  CHECK(chunks_of(3, 0) == Chunks{{0, 1}, {1, 2}, {2, 3}});
  CHECK(chunks_of(2, -7) == Chunks{{0, 1}, {1, 2}});
}

TEST_CASE("the ends of chunks do not overflow at the largest sizes", "[parallel]") {
  const UseThreads use(2);
  const index_t most = std::numeric_limits<index_t>::max(), grain = most / 2 + 2;
  CHECK(chunks_of(most, grain) == Chunks{{0, grain}, {grain, most}});
  CHECK(chunks_of(most, most) == Chunks{{0, most}});
}

TEST_CASE("one thread, or one chunk, runs on the caller and in order", "[parallel]") {
  std::vector<index_t> begins;
  const auto caller = std::this_thread::get_id();
  const auto note = [&](index_t begin, index_t) {
    CHECK(std::this_thread::get_id() == caller);
    begins.push_back(begin);
  };
  {
    const UseThreads use(4);
    parallel_for(10, 10, note);
    CHECK(begins == std::vector<index_t>{0});
  }
  begins.clear();
  const UseThreads use(1);
  parallel_for(5, 1, note);
  CHECK(begins == std::vector<index_t>{0, 1, 2, 3, 4});
}

TEST_CASE("workers take part", "[parallel]") {
  const UseThreads use(4);
  Meeting meeting(4);
  std::atomic<int> met{0};
  parallel_for(4, 1, [&](index_t, index_t) { met += meeting.arrive(); });
  CHECK(met.load() == 4);
}

TEST_CASE("what chunks wrote is seen by the caller", "[parallel]") {
  const UseThreads use(3);
  std::vector<index_t> out(1000);
  for (index_t round = 0; round < 2000; ++round) {
    parallel_for(1000, 100, [&](index_t begin, index_t end) { std::fill(out.begin() + begin, out.begin() + end, round); });
    REQUIRE(std::count(out.begin(), out.end(), round) == 1000);
  }
}

TEST_CASE("loops nest", "[parallel]") {
  for (const int threads : {1, 2, 4}) {
    const UseThreads use(threads);
    std::atomic<index_t> sum{0};
    parallel_for(8, 1, [&](index_t i, index_t) {
      parallel_for(6, 2, [&](index_t j, index_t) { parallel_for(5, 1, [&](index_t k, index_t) { sum += 100 * i + 10 * j + k; }); });
    });
    CHECK(sum.load() == 100 * 28 * 15 + 10 * 6 * 40 + 10 * 24);
  }
}

namespace {
// A loop within a loop, `depth` times; counts the innermost.
void nest(int depth, std::atomic<int>& reached) {
  parallel_for(2, 1, [&](index_t i, index_t) {
    if (i == 1) ++reached;
    else if (depth > 1) nest(depth - 1, reached);
  });
}
}  // namespace

TEST_CASE("more loops may be open at once than the pool can list", "[parallel]") {
  const UseThreads use(2);
  std::atomic<int> reached{0};
  nest(200, reached);
  CHECK(reached.load() == 200);
}

TEST_CASE("several host threads run loops at once", "[parallel]") {
  const UseThreads use(3);
  std::atomic<int> wrong{0};
  std::vector<std::thread> hosts;
  for (int host = 0; host < 4; ++host)
    hosts.emplace_back([&wrong, host] {
      for (int round = 0; round < 300; ++round) {
        const index_t n = 1 + (host * 300 + round) % 97;
        std::atomic<index_t> sum{0};
        parallel_for(n, 1 + round % 5, [&](index_t begin, index_t end) {
          for (index_t i = begin; i < end; ++i) sum += i;
        });
        wrong += sum.load() != n * (n - 1) / 2;
      }
    });
  for (std::thread& host : hosts) host.join();
  CHECK(wrong.load() == 0);
}

TEST_CASE("a loop does not wait for workers that are busy with another", "[parallel]") {
  const UseThreads use(2);
  Meeting both(2);
  std::atomic<bool> release{false}, started{false};
  std::thread other([&] {
    parallel_for(2, 1, [&](index_t, index_t) {
      both.arrive();
      started = true;
      while (!release.load()) std::this_thread::yield();
    });
  });
  while (!started.load()) std::this_thread::yield();
  index_t sum = 0;  // no worker is free, so the caller alone writes it
  parallel_for(100, 1, [&](index_t i, index_t) { sum += i; });
  CHECK(sum == 4950);
  release = true;
  other.join();
}

TEST_CASE("the exception of the lowest failing chunk is rethrown, on any number of threads", "[parallel]") {
  for (const int threads : {1, 2, 4}) {
    const UseThreads use(threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<bool>> ran(64);
      std::string message;
      try {
        parallel_for(64, 1, [&](index_t i, index_t) {
          ran[static_cast<std::size_t>(i)] = true;
          if (i >= 20 && i % 3 == 0) throw ValueError("loop", cat("chunk ", i));
        });
      } catch (const ValueError& error) {
        message = error.problem();
      }
      REQUIRE(message == "chunk 21");
      for (std::size_t i = 0; i <= 21; ++i) REQUIRE(ran[i].load());
    }
    CHECK(chunks_of(100, 9).size() == 12);  // and the pool works on
  }
}

TEST_CASE("chunks that nobody has claimed are dropped after a failure", "[parallel]") {
  const UseThreads use(2);
  std::atomic<index_t> ran{0};
  const index_t chunks = index_t{1} << 40;  // running them all would take hours
  CHECK_THROWS_AS(parallel_for(chunks, 1,
                               [&](index_t i, index_t) {
                                 ++ran;
                                 if (i == 3) throw ValueError("loop", "stop");
                               }),
                  ValueError);
  CHECK(ran.load() >= 4);
}

TEST_CASE("workers flush denormals when the caller does, and only then", "[parallel]") {
  const UseThreads use(3);
  const auto flushing = [] {
    Meeting meeting(3);
    std::atomic<int> count{0};
    parallel_for(3, 1, [&](index_t, index_t) {
      const bool met = meeting.arrive();
      volatile double denormal = 1e-310;
      const bool gone = denormal * 0.5 == 0;
      count += met && flushes_denormals() && gone;
    });
    return count.load();
  };
  CHECK(flushing() == 0);
  {
    const FlushDenormals guard;
    CHECK(flushing() == 3);
    {
      const FlushDenormals inner;
      CHECK(flushing() == 3);
    }
    CHECK(flushing() == 3);
  }
  CHECK(flushing() == 0);
  CHECK_FALSE(flushes_denormals());
}

TEST_CASE("a loop allocates nothing", "[parallel]") {
  const UseThreads use(3);
  std::atomic<index_t> sum{0};
  const auto loops = [&] {
    for (int round = 0; round < 1000; ++round)
      parallel_for(40, 3, [&](index_t begin, index_t) { parallel_for(3, 1, [&](index_t i, index_t) { sum += begin + i; }); });
  };
  loops();
  const long before = news();
  loops();
  CHECK(news() == before);
}

TEST_CASE("the number of threads must lie between 1 and 256", "[parallel]") {
  const UseThreads use(2);
  for (const int threads : {0, -1, 257})
    CHECK_THROWS_WITH(set_thread_count(threads), "[threads] " + std::to_string(threads) + " threads. Hint: give 1 to 256.");
  CHECK(thread_count() == 2);
  set_thread_count(256);
  CHECK(thread_count() == 256);
}

TEST_CASE("a worker cannot change the number of threads", "[parallel]") {
  const UseThreads use(2);
  Meeting meeting(2);
  const auto caller = std::this_thread::get_id();
  CHECK_THROWS_AS(parallel_for(2, 1,
                               [&](index_t, index_t) {
                                 meeting.arrive();
                                 if (std::this_thread::get_id() != caller) set_thread_count(3);
                               }),
                  ValueError);
  CHECK(thread_count() == 2);
}

TEST_CASE("the number of threads may change between loops, with other hosts in the middle of theirs", "[parallel]") {
  const UseThreads use(2);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread host([&] {
    while (!stop.load()) {
      std::atomic<index_t> sum{0};
      parallel_for(50, 1, [&](index_t i, index_t) { sum += i; });
      wrong += sum.load() != 1225;
    }
  });
  for (int round = 0; round < 100; ++round) {
    set_thread_count(1 + round % 4);
    CHECK(chunks_of(20, 3).size() == 7);
  }
  stop = true;
  host.join();
  CHECK(wrong.load() == 0);
}
