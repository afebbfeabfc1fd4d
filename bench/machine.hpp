#pragma once
// What this machine can do at most, to relate figures to.

#include <vector>

namespace gradus::bench {

/// Floating-point operations per second of one core in independent fma (each counts two) under the active instruction set; measured
/// at first use. 0 without fma or where there is no measurement for the instruction set.
template <class T>
[[nodiscard]] double fma_limit();
template <>
double fma_limit<float>();
template <>
double fma_limit<double>();

/// One measured limit: operations or bytes per second of all threads together.
struct Limit {
  const char* name;
  double per_second;
};
/// "fma_f32", "fma_f64" and, for reading and copying spans of sizes that fit the cache levels or none, "read_32K", "copy_32K", ...
/// (bytes of all spans of one thread together; a copied byte counts twice).
[[nodiscard]] std::vector<Limit> machine_limits();

}  // namespace gradus::bench
