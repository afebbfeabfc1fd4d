#pragma once
// Spans that start at any offset from an alignment, with sentinels on both sides.

#include <cstring>

#include "tests/kernels/exact.hpp"

namespace gradus::testing {

/// n elements, `offset` elements after a 64-byte boundary; what surrounds them must stay as it is.
template <class T>
class Guarded {
 public:
  explicit Guarded(index_t n, index_t offset = 0) : n_(n), storage_(static_cast<std::size_t>(n + offset + 3 * margin)) {
    std::memset(storage_.data(), sentinel, storage_.size() * sizeof(T));
    const auto address = reinterpret_cast<std::uintptr_t>(storage_.data() + margin);
    begin_ = storage_.data() + margin + static_cast<index_t>((64 - address % 64) % 64 / sizeof(T)) + offset;
  }
  Guarded(const std::vector<T>& values, index_t offset) : Guarded(static_cast<index_t>(values.size()), offset) {
    std::copy(values.begin(), values.end(), begin_);
  }

  T* data() { return begin_; }
  T& operator[](index_t i) { return begin_[i]; }
  [[nodiscard]] bool surroundings_untouched() const {
    const auto untouched = [](const T* from, const T* to) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(from);
      for (const auto* end = reinterpret_cast<const unsigned char*>(to); bytes != end; ++bytes)
        if (*bytes != sentinel) return false;
      return true;
    };
    return untouched(storage_.data(), begin_) && untouched(begin_ + n_, storage_.data() + storage_.size());
  }

 private:
  static constexpr index_t margin = 64;
  static constexpr unsigned char sentinel = 0x5a;
  index_t n_;
  std::vector<T> storage_;
  T* begin_ = nullptr;
};

/// Runs `body` for every instruction set there is, as the active one.
template <class F>
void on_every_isa(F&& body) {
  for (const auto isa : instruction_sets()) {
    const UseIsa use(isa);
    INFO("instruction set " << kernels::name_of(isa));
    body();
  }
}

/// Distance of `got` from `wanted` in units in the last place of `wanted` rounded to T; enormous for a wrong kind (NaN, sign of zero).
template <class T>
double ulps(T got, long double wanted) {
  constexpr double wrong = 1e30;
  const T rounded = static_cast<T>(wanted);
  if (std::isnan(wanted)) return std::isnan(got) ? 0 : wrong;
  if (std::isnan(got)) return wrong;
  if (got == rounded) return rounded == 0 && std::signbit(got) != std::signbit(rounded) ? wrong : 0;
  if (std::isinf(rounded) || std::isinf(got)) {
    const T most = std::numeric_limits<T>::max();
    return std::fabs(got) >= most && std::fabs(rounded) >= most && std::signbit(got) == std::signbit(rounded) ? 1 : wrong;
  }
  using Limits = std::numeric_limits<T>;
  int exponent = 0;
  std::frexp(std::fabs(rounded), &exponent);
  const long double unit = std::ldexp(1.0L, std::max(exponent, Limits::min_exponent) - Limits::digits);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - wanted) / unit);
}

}  // namespace gradus::testing
