#pragma once
// Philox4x32-10 on vectors of counters, for the 32-bit words that Random::survives compares. Only kernel implementations include it;
// internal linkage, see simd.hpp.

#include "engine/core/random.hpp"
#include "engine/kernels/simd.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

/// Products of the low halves of 64-bit lanes.
GRADUS_INLINE Vec<std::uint64_t> multiply_low(const Vec<std::uint64_t>& a, const Vec<std::uint64_t>& b) {
#if defined(GRADUS_ISA_AVX512)
  return Vec<std::uint64_t>(_mm512_mul_epu32(a, b));
#elif defined(GRADUS_ISA_AVX2)
  return Vec<std::uint64_t>(_mm256_mul_epu32(a, b));
#elif defined(__aarch64__)
  return Vec<std::uint64_t>(vmull_u32(vmovn_u64(a), vmovn_u64(b)));
#else
  return Vec<std::uint64_t>(_mm_mul_epu32(a, b));
#endif
}

/// The blocks of one stream.
class Philox {
 public:
  GRADUS_INLINE Philox(std::uint64_t seed, std::uint64_t stream_key) : stream_low_(stream_key), stream_high_(stream_key >> 32) {
    auto low = static_cast<std::uint32_t>(seed), high = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < rounds; ++round, low += 0x9E3779B9, high += 0xBB67AE85) {
      low_[round] = Words(std::uint64_t{low});
      high_[round] = Words(std::uint64_t{high});
    }
  }

  /// The words of elements [32 group, 32 group + 32), in the order of Random::survives: vectors of blocks side by side.
  GRADUS_INLINE void group(std::uint64_t index, std::uint32_t* words) const {
    alignas(64) static constexpr std::uint64_t block[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const Words low_half(std::uint64_t{0xFFFFFFFF}), multiplier_0(std::uint64_t{0xD2511F53}), multiplier_1(std::uint64_t{0xCD9E8D57});
#pragma GCC unroll 4
    for (index_t b = 0; b < blocks; b += lanes) {
      const Words counter = Words(index * blocks) + Words::load_aligned(block + b);
      Words c0 = counter, c1 = counter >> 32, c2 = stream_low_, c3 = stream_high_;
#pragma GCC unroll 10
      for (int round = 0; round < rounds; ++round) {
        const Words p0 = multiply_low(c0, multiplier_0), p1 = multiply_low(c2, multiplier_1);
        c0 = (p1 >> 32) ^ c1 ^ low_[round];
        c2 = (p0 >> 32) ^ c3 ^ high_[round];
        c1 = p1;
        c3 = p0;
      }
      const Words first = (c0 & low_half) | (c1 << 32), second = (c2 & low_half) | (c3 << 32);
      store_words(first, words + 2 * b);
      store_words(second, words + 16 + 2 * b);
    }
  }

 private:
  using Words = Vec<std::uint64_t>;
  static constexpr int rounds = 10;
  static constexpr index_t blocks = survival_group / 4, lanes = static_cast<index_t>(Words::size);

  GRADUS_INLINE static void store_words(const Words& v, std::uint32_t* to) {
    alignas(64) std::uint64_t pairs[static_cast<std::size_t>(lanes)];
    v.store_aligned(pairs);
    __builtin_memcpy(to, pairs, sizeof pairs);
  }

  Words low_[rounds], high_[rounds];  // keys
  Words stream_low_, stream_high_;
};

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
