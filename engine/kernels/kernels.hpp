#pragma once
// The table of SIMD kernels: loops on raw spans, compiled once per instruction set, chosen at start-up.

#include "engine/core/dtype.hpp"
#include "engine/kernels/attention.hpp"
#include "engine/kernels/distance.hpp"
#include "engine/kernels/elementwise.hpp"
#include "engine/kernels/gemm.hpp"
#include "engine/kernels/norm.hpp"
#include "engine/kernels/reduce.hpp"
#include "engine/kernels/signs.hpp"
#include "engine/kernels/softmax.hpp"
#include "engine/kernels/transpose.hpp"
#include "engine/kernels/update.hpp"

namespace gradus::kernels {

/// Instruction sets a kernel is compiled for. `baseline` is what every CPU of the target has (no fma).
enum class Isa : std::uint8_t { baseline, avx2, avx512, neon };

/// All kernels of one floating-point type.
template <class T>
struct Kernels {
  ElementwiseKernels<T> elementwise;
  ReduceKernels<T> reduce;
  SoftmaxKernels<T> softmax;
  GemmKernels<T> gemm;
  DistanceKernels<T> distance;
  UpdateKernels<T> update;
  AttentionKernels<T> attention;
  TransposeKernels<T> transpose;
  RowNormKernels<T> row_norm;
  SignKernels<T> signs;
};

/// "baseline", "avx2", "avx512", "neon".
[[nodiscard]] const char* name_of(Isa isa) noexcept;
/// True when this build has the kernels and this machine (CPU and operating system) can run them.
[[nodiscard]] bool available(Isa isa) noexcept;
/// The instruction set in use: GRADUS_ISA when set, else the best available. An unknown or unavailable GRADUS_ISA is a
/// ValueError at first use.
[[nodiscard]] Isa active_isa();
/// Switches at run time (tests, benchmarks). ValueError when unavailable.
void select_isa(Isa isa);
/// The active table for float or double.
template <class T>
[[nodiscard]] const Kernels<T>& active();
template <>
const Kernels<float>& active<float>();
template <>
const Kernels<double>& active<double>();

}  // namespace gradus::kernels
