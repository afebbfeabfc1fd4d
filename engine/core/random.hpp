#pragma once
// Counter-based random numbers (Philox4x32-10). A value depends on (seed, stream, index) alone: never on threads, on the
// order of calls or on the instruction set. Everything here is compiled once, for the baseline, without fma and without
// libm, so that normals have the same bits on every machine.

#include <array>
#include <cstdint>
#include <span>

#include "engine/core/dtype.hpp"

namespace gradus {

/// One Philox4x32-10 block.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) noexcept;

/// A stream of random numbers addressed by index. Streams of one seed are independent of each other.
class Random {
 public:
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0) noexcept : seed_(seed), stream_(stream) {}
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  [[nodiscard]] std::uint64_t stream() const noexcept { return stream_; }
  /// The same seed with a stream derived from this one and `id`: for giving each part of a program its own numbers.
  [[nodiscard]] Random fork(std::uint64_t id) const noexcept;

  /// 64 random bits.
  [[nodiscard]] std::uint64_t bits(std::uint64_t index) const noexcept;
  /// Uniform on the open interval (0, 1): neither end ever occurs, in either precision.
  [[nodiscard]] double uniform(std::uint64_t index) const noexcept;
  [[nodiscard]] float uniform_f32(std::uint64_t index) const noexcept;
  /// Standard normal, by the inverse of the normal distribution function (Wichura, AS 241) of uniform(index).
  [[nodiscard]] double normal(std::uint64_t index) const noexcept;
  /// Uniform integer in [0, n), without bias. n < 1 is a ValueError.
  [[nodiscard]] index_t integer(std::uint64_t index, index_t n) const;
  /// A category drawn with probability weights[i] / sum. Negative, non-finite or all-zero weights are a ValueError.
  [[nodiscard]] index_t categorical(std::uint64_t index, std::span<const double> weights) const;

  /// False with probability p, 0 <= p < 1, to within 2^-32: dropout's choice. It takes one 32-bit word, so that a Philox block serves
  /// four elements: element i = 32 g + e reads word 2 (e / 16) + e % 2 of block 8 g + (e % 16) / 2, which suits SIMD registers.
  [[nodiscard]] bool survives(std::uint64_t index, double p) const noexcept;
  /// What the stream contributes to the counters of its blocks, for code that computes many at once.
  [[nodiscard]] std::uint64_t stream_key() const noexcept;

  /// Fills with numbers index `first`, first + 1, ... (in parallel; the bits do not depend on that).
  void fill_uniform(std::span<float> out, std::uint64_t first = 0) const;
  void fill_uniform(std::span<double> out, std::uint64_t first = 0) const;
  void fill_normal(std::span<float> out, std::uint64_t first = 0) const;
  void fill_normal(std::span<double> out, std::uint64_t first = 0) const;
  /// A uniformly random permutation of 0..n-1 (Fisher-Yates on the indices first, first + 1, ...).
  void fill_permutation(std::span<index_t> out, std::uint64_t first = 0) const;

 private:
  std::uint64_t seed_, stream_;
};

/// Elements whose words Random::survives takes from one set of blocks.
inline constexpr index_t survival_group = 32;
/// An element survives when its word is at least this.
[[nodiscard]] constexpr std::uint32_t survival_threshold(double p) noexcept {
  const double words = p * 0x1p32;
  return words >= 0xFFFFFFFF ? 0xFFFFFFFF : static_cast<std::uint32_t>(words) + (static_cast<std::uint32_t>(words) < words ? 1 : 0);
}

/// Natural logarithm with the same bits everywhere (fdlibm's algorithm, no fma). For finite x > 0; within 1 ulp.
[[nodiscard]] double portable_log(double x) noexcept;

}  // namespace gradus
