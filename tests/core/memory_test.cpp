#include "engine/core/memory.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <thread>
#include <vector>

#include "engine/core/error.hpp"
#include "tests/catch.hpp"
#include "tests/core/counting_new.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

using namespace gradus;
using gradus::testing::news;

namespace {

MemoryPool& pool() { return MemoryPool::instance(); }
PoolStats stats() { return pool().stats(); }

// Poisoning as asked for in this scope, then as the build has it.
class Poison {
 public:
  explicit Poison(bool on) { pool().set_poison(on); }
#ifdef NDEBUG
  ~Poison() { pool().set_poison(false); }
#else
  ~Poison() { pool().set_poison(true); }
#endif
  Poison(const Poison&) = delete;
  Poison& operator=(const Poison&) = delete;
};

bool all_nan(const void* block, std::size_t bytes) {
  const auto* words = static_cast<const char*>(block);
  for (std::size_t i = 0; i + 4 <= bytes; i += 4) {
    float x = 0;
    std::memcpy(&x, words + i, 4);
    if (!std::isnan(x)) return false;
  }
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    double x = 0;
    std::memcpy(&x, words + i, 8);
    if (!std::isnan(x)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("blocks are aligned, writable and apart from each other", "[memory]") {
  std::vector<std::pair<char*, std::size_t>> blocks;
  for (const std::size_t bytes : std::initializer_list<std::size_t>{0, 1, 63, 64, 65, 127, 128, 129, 160, 1000, 4096, 65537, (2 << 20) - 64, 2 << 20, 5 << 20})
    for (int copy = 0; copy < 3; ++copy) {
      auto* block = static_cast<char*>(pool().allocate(bytes));
      CHECK(reinterpret_cast<std::uintptr_t>(block) % 64 == 0);
      std::memset(block, static_cast<int>(blocks.size()), bytes);
      blocks.emplace_back(block, bytes);
    }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto [block, bytes] = blocks[i];
    CHECK(std::count(block, block + bytes, static_cast<char>(i)) == static_cast<std::ptrdiff_t>(bytes));
    pool().release(block);
  }
}

TEST_CASE("a block is at most a quarter larger than asked for", "[memory]") {
  const Poison off(false);
  const auto check = [](std::size_t bytes) {
    const auto before = stats().live_bytes;
    void* block = pool().allocate(bytes);
    const auto size = static_cast<std::size_t>(stats().live_bytes - before);
    CAPTURE(bytes, size);
    CHECK(size >= bytes);
    CHECK(size <= std::max<std::size_t>(128, bytes + bytes / 4));
    pool().release(block);
    CHECK(stats().live_bytes == before);
  };
  for (std::size_t bytes = 0; bytes < 2000; ++bytes) check(bytes);
  for (std::size_t power = 2048; power <= std::size_t{1} << 26; power *= 2)
    for (const std::size_t bytes : {power - 1, power, power + 1, power + power / 4, power + power / 4 + 1, power / 2 * 3, power / 4 * 7 + 1}) check(bytes);
  pool().trim();
}

TEST_CASE("a released block serves the next request of its size", "[memory]") {
  pool().trim();
  const PoolStats start = stats();
  void* first = pool().allocate(5000);
  CHECK(stats().requests == start.requests + 1);
  CHECK(stats().misses == start.misses + 1);
  const auto size = stats().live_bytes - start.live_bytes;
  pool().release(first);
  CHECK(stats().cached_bytes == start.cached_bytes + size);
  void* again = pool().allocate(5001);
  CHECK(again == first);
  CHECK(stats().requests == start.requests + 2);
  CHECK(stats().misses == start.misses + 1);
  CHECK(stats().cached_bytes == start.cached_bytes);
  void* other = pool().allocate(10000);
  CHECK(stats().misses == start.misses + 2);
  pool().release(other);
  pool().release(again);
  pool().release(nullptr);
  CHECK(stats().live_bytes == start.live_bytes);
}

TEST_CASE("trimming gives cached blocks back and leaves live ones alone", "[memory]") {
  char* live = static_cast<char*>(pool().allocate(3000));
  std::memset(live, 42, 3000);
  pool().release(pool().allocate(3000));
  pool().release(pool().allocate(8 << 20));
  const PoolStats before = stats();
  CHECK(before.cached_bytes >= 3000 + (8 << 20));
  pool().trim();
  CHECK(stats().cached_bytes == 0);
  CHECK(stats().live_bytes == before.live_bytes);
  CHECK(std::count(live, live + 3000, 42) == 3000);
  void* next = pool().allocate(3000);
  CHECK(stats().misses == before.misses + 1);
  pool().release(next);
  pool().release(live);
}

TEST_CASE("the peak remembers the most in use and can start anew", "[memory]") {
  pool().reset_peak();
  const auto live = stats().live_bytes;
  CHECK(stats().peak_bytes == live);
  void* a = pool().allocate(1 << 20);
  void* b = pool().allocate(1 << 20);
  pool().release(a);
  pool().release(b);
  CHECK(stats().live_bytes == live);
  CHECK(stats().peak_bytes == live + (2 << 20));
  pool().reset_peak();
  CHECK(stats().peak_bytes == live);
}

TEST_CASE("poisoning fills fresh and reused blocks with NaN, for either precision", "[memory]") {
  const Poison on(true);
  pool().trim();
  for (const std::size_t bytes : std::initializer_list<std::size_t>{4, 64, 1000, 3 << 20}) {
    void* fresh = pool().allocate(bytes);
    CHECK(all_nan(fresh, bytes));
    std::memset(fresh, 0, bytes);
    pool().release(fresh);
    void* reused = pool().allocate(bytes);
    REQUIRE(reused == fresh);
    CHECK(all_nan(reused, bytes));
    std::memset(reused, 0, bytes);
    pool().release(reused);
    pool().set_poison(false);
    void* plain = pool().allocate(bytes);
    REQUIRE(plain == fresh);
#if !defined(__SANITIZE_ADDRESS__)
    CHECK_FALSE(all_nan(plain, bytes));
#endif
    pool().release(plain);
    pool().set_poison(true);
  }
}

#ifndef NDEBUG
TEST_CASE("debug builds poison unless told otherwise", "[memory]") {
  void* block = pool().allocate(512);
  CHECK(all_nan(block, 512));
  pool().release(block);
}
#endif

#if defined(__SANITIZE_ADDRESS__)
TEST_CASE("the address sanitizer knows that a released block may not be touched", "[memory]") {
  char* block = static_cast<char*>(pool().allocate(300));
  CHECK(__asan_address_is_poisoned(block + 17) == 0);
  pool().release(block);
  CHECK(__asan_address_is_poisoned(block + 17) == 1);
}
#endif

TEST_CASE("a size that no machine has is an error that names it", "[memory]") {
  const PoolStats before = stats();
  constexpr auto most = std::numeric_limits<std::size_t>::max();
  const std::string live = std::to_string(before.live_bytes);
  CHECK_THROWS_WITH(pool().allocate(most),
                    "[memory] the system has no 18446744073709551615 bytes left (" + live + " in use). Hint: use smaller sizes or fewer at once.");
  CHECK_THROWS_AS(pool().allocate(std::size_t{1} << 56), ValueError);
  CHECK_THROWS_AS(Buffer::allocate(most), ValueError);
  CHECK_THROWS_AS(Buffer::allocate(most - 64), ValueError);
  CHECK(stats().live_bytes == before.live_bytes);
  CHECK(stats().misses == before.misses);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // sanitizers end the program where malloc would say no
TEST_CASE("when the system refuses, cached blocks go back to it before that is an error", "[memory]") {
  const Poison off(false);
  pool().trim();
  pool().release(pool().allocate(std::size_t{1} << 30));  // never touched, so it costs addresses only
  REQUIRE(stats().cached_bytes == 1 << 30);
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
  const rlimit before = limit;
  limit.rlim_cur = pages * 4096 + (rlim_t{300} << 20);
  REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  std::string message;
  void* block = nullptr;
  try {
    block = pool().allocate((std::size_t{5} << 28) - 4096);  // 1.25 GiB: fits only where the cached block was
    CHECK(stats().cached_bytes == 0);
    (void)pool().allocate(std::size_t{4} << 30);
  } catch (const ValueError& error) {
    message = error.what();
  }
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CHECK(block != nullptr);
  CHECK(message.find("no 4294967296 bytes left (" + std::to_string(stats().live_bytes) + " in use)") != std::string::npos);
  pool().release(block);
  pool().trim();
}
#endif

TEST_CASE("threads never share a block, and blocks may be released by another thread", "[memory][parallel]") {
  const auto live = stats().live_bytes;
  const auto requests = stats().requests;
  constexpr std::size_t threads = 4, rounds = 2000;
  std::atomic<int> damaged{0};
  std::vector<std::vector<unsigned char*>> handed(threads);
  const auto in_threads = [&](const std::function<void(std::size_t)>& body) {
    std::vector<std::thread> running;
    for (std::size_t id = 0; id < threads; ++id) running.emplace_back(body, id);
    for (std::thread& thread : running) thread.join();
  };
  in_threads([&](std::size_t id) {
    const auto mark = static_cast<unsigned char>(id + 1);
    for (std::size_t round = 0; round < rounds; ++round) {
      const std::size_t bytes = 64 + 64 * (round % 7);
      auto* block = static_cast<unsigned char*>(pool().allocate(bytes));
      std::memset(block, mark, bytes);
      std::this_thread::yield();
      damaged += std::count(block, block + bytes, mark) != static_cast<std::ptrdiff_t>(bytes);
      if (round % 10 == 0) handed[id].push_back(block);
      else pool().release(block);
    }
  });
  in_threads([&](std::size_t id) {
    for (unsigned char* block : handed[(id + 1) % threads]) {
      damaged += *block != (id + 1) % threads + 1;
      pool().release(block);
    }
    if (id == 0) pool().trim();
  });
  CHECK(damaged.load() == 0);
  CHECK(stats().live_bytes == live);
  CHECK(stats().requests == requests + static_cast<std::int64_t>(threads * rounds));
}

TEST_CASE("a request that the cache serves does not touch operator new", "[memory]") {
  pool().release(pool().allocate(700));
  const long before = news();
  for (int i = 0; i < 100; ++i) pool().release(pool().allocate(700));
  CHECK(news() == before);
}

TEST_CASE("copies of a buffer share storage and version, and the last one frees it", "[memory]") {
  const auto live = stats().live_bytes;
  {
    Buffer a = Buffer::allocate(100);
    CHECK(a);
    CHECK(a.bytes() == 100);
    CHECK(a.unique());
    CHECK(a.version() == 0);
    CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 64 == 0);
    Buffer b = a;
    CHECK_FALSE(a.unique());
    CHECK(b.same_as(a));
    CHECK(b.data() == a.data());
    b.bump_version();
    CHECK(a.version() == 1);
    const Buffer& self = b;
    b = self;
    CHECK(b.same_as(a));
    Buffer c = std::move(b);
    CHECK_FALSE(b);  // NOLINT: what is left of a moved buffer is promised
    CHECK(c.same_as(a));
    a = Buffer::allocate(0);
    CHECK(c.unique());
    CHECK(a.bytes() == 0);
    CHECK_FALSE(c.same_as(a));
    c = std::move(a);
    CHECK(c.unique());
  }
  CHECK(stats().live_bytes == live);
  CHECK_FALSE(Buffer());
}

TEST_CASE("vectors on the pool reuse its blocks", "[memory]") {
  using Vector = std::vector<int, PoolAllocator<int>>;
  const auto grow = [] {
    Vector values;
    for (int i = 0; i < 10000; ++i) values.push_back(i);
    return values.back();
  };
  CHECK(grow() == 9999);
  const auto misses = stats().misses, requests = stats().requests;
  const long before = news();
  CHECK(grow() == 9999);
  CHECK(stats().misses == misses);
  CHECK(stats().requests > requests);
  CHECK(news() == before);
  CHECK_THROWS_AS(PoolAllocator<double>().allocate(std::numeric_limits<std::size_t>::max() / 4), ValueError);
}
