#pragma once
// A number of threads for the length of a scope.

#include "engine/core/parallel.hpp"

namespace gradus::testing {

class UseThreads {
 public:
  explicit UseThreads(int threads) : before_(thread_count()) { set_thread_count(threads); }
  ~UseThreads() { set_thread_count(before_); }
  UseThreads(const UseThreads&) = delete;
  UseThreads& operator=(const UseThreads&) = delete;

 private:
  int before_;
};

}  // namespace gradus::testing
