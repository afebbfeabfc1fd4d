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

/// The words of elements [32 group, 32 group + 32) of a stream, in the order of Random::survives: vectors of blocks side by side.
GRADUS_INLINE void philox_group(std::uint64_t seed, std::uint64_t stream_key, std::uint64_t group, std::uint32_t* words) {
  using Words = Vec<std::uint64_t>;
  constexpr index_t blocks = survival_group / 4, lanes = static_cast<index_t>(Words::size);
  alignas(64) static constexpr std::uint64_t index[] = {0, 1, 2, 3, 4, 5, 6, 7};
  const Words low_half(std::uint64_t{0xFFFFFFFF}), multiplier_0(std::uint64_t{0xD2511F53}), multiplier_1(std::uint64_t{0xCD9E8D57});
#pragma GCC unroll 4
  for (index_t b = 0; b < blocks; b += lanes) {
    const Words counter = Words(group * blocks) + Words::load_aligned(index + b), stream(stream_key);
    Words c0 = counter, c1 = counter >> 32, c2 = stream, c3 = stream >> 32;
    auto key_0 = static_cast<std::uint32_t>(seed), key_1 = static_cast<std::uint32_t>(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round, key_0 += 0x9E3779B9, key_1 += 0xBB67AE85) {
      const Words p0 = multiply_low(c0, multiplier_0), p1 = multiply_low(c2, multiplier_1);
      c0 = (p1 >> 32) ^ c1 ^ Words(std::uint64_t{key_0});
      c2 = (p0 >> 32) ^ c3 ^ Words(std::uint64_t{key_1});
      c1 = p1;
      c3 = p0;
    }
    const Words first = (c0 & low_half) | (c1 << 32), second = (c2 & low_half) | (c3 << 32);
    alignas(64) std::uint64_t halves[2][static_cast<std::size_t>(lanes)];
    first.store_aligned(halves[0]);
    second.store_aligned(halves[1]);
    __builtin_memcpy(words + 2 * b, halves[0], sizeof halves[0]);
    __builtin_memcpy(words + survival_group / 2 + 2 * b, halves[1], sizeof halves[1]);
  }
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
