#pragma once
// How work is timed and asked for, the same for ours and for peers in C++; it knows nothing of the engine.

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <iostream>
#include <string>

namespace gradus::bench {

/// What is timed: everything else was done when it was made.
using Work = std::function<void()>;

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Seconds of one piece: the fastest of the rounds that fit the time, each of several pieces when they are short: what disturbs only adds.
inline double time_of(const Work& work, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  const double once = seconds_since(begin);
  const int pieces = once > 1e-3 ? 1 : static_cast<int>(1e-3 / std::max(once, 1e-7)) + 1;
  double best = pieces == 1 ? once : 1e30;
  while (seconds_since(begin) < seconds) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < pieces; ++i) work();
    best = std::min(best, seconds_since(start) / pieces);
  }
  return best;
}

/// Answers the requests on standard input, one a line, until it ends; an exception is answered by "error ...".
inline void answer_requests(void (*answer)(const std::string& request)) {
  std::cout.precision(9);
  for (std::string request; std::getline(std::cin, request);) try {
      answer(request);
    } catch (const std::exception& error) {
      std::cout << "error " << error.what() << std::endl;
    }
}

}  // namespace gradus::bench
