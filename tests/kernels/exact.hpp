#pragma once
// Helpers of tests that demand exact bits from kernels.

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/kernels/kernels.hpp"
#include "tests/use_threads.hpp"

namespace gradus::testing {

/// The instruction sets that this build and machine have.
inline std::vector<kernels::Isa> instruction_sets() {
  std::vector<kernels::Isa> found;
  for (const auto isa : {kernels::Isa::baseline, kernels::Isa::avx2, kernels::Isa::avx512, kernels::Isa::neon})
    if (kernels::available(isa)) found.push_back(isa);
  return found;
}

/// Selects an instruction set until it leaves scope.
class UseIsa {
 public:
  explicit UseIsa(kernels::Isa isa) : before_(kernels::active_isa()) { kernels::select_isa(isa); }
  ~UseIsa() { kernels::select_isa(before_); }
  UseIsa(const UseIsa&) = delete;
  UseIsa& operator=(const UseIsa&) = delete;

 private:
  kernels::Isa before_;
};

/// One step of a chain as the active instruction set does it: a b + c, rounded once, or twice on the baseline.
template <class T>
T chain_step(T a, T b, T c) {
  return kernels::active_isa() == kernels::Isa::baseline ? a * b + c : std::fma(a, b, c);
}

/// Equal bits; any NaN equals any other.
template <class T>
bool same(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

/// The pairwise tree that kernels merge partial sums in: parts[0..count) of `size` elements each, into the first.
template <class T>
void merge_in_tree(std::vector<T>& parts, index_t count, index_t size) {
  for (index_t h = 1; h < count; h *= 2)
    for (index_t q = 0; q + h < count; q += 2 * h)
      for (index_t i = 0; i < size; ++i) parts[static_cast<std::size_t>(q * size + i)] += parts[static_cast<std::size_t>((q + h) * size + i)];
}

/// Numbers in [-2, 2) with many significant bits, so that every change of order shows; the same for equal seeds.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint64_t bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 11;
  }
  template <class T>
  T next() {
    return static_cast<T>(static_cast<double>(bits()) * 0x1p-51 - 2.0);
  }
  template <class T>
  std::vector<T> take(index_t count) {
    std::vector<T> values(static_cast<std::size_t>(count));
    for (T& v : values) v = next<T>();
    return values;
  }

 private:
  std::uint64_t state_;
};

}  // namespace gradus::testing
