#pragma once
// What this machine can do at most, to relate figures to.

namespace gradus::bench {

/// Floating-point operations per second of one core in independent fma (each counts two) under the active instruction set; measured
/// at first use. 0 without fma or where there is no measurement for the instruction set.
template <class T>
[[nodiscard]] double fma_limit();
template <>
double fma_limit<float>();
template <>
double fma_limit<double>();

}  // namespace gradus::bench
