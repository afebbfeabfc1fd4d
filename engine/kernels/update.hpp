#pragma once
// Optimiser updates of one parameter span, in place, in PyTorch's order of operations.

#include "engine/core/dtype.hpp"

namespace gradus::kernels {

/// One step of stochastic gradient descent. With decay w: g += w p. With momentum m: the buffer becomes g at the first step, else
/// m buffer + g; g = the buffer, or g + m buffer with Nesterov's. Then p -= rate g.
template <class T>
struct SgdStep {
  T rate, momentum, weight_decay;
  bool nesterov, first_step;
};

/// One step of Adam or AdamW. The corrections are 1 - beta1^t and sqrt(1 - beta2^t) at step t = 1, 2, ...
template <class T>
struct AdamStep {
  T rate, beta1, beta2, epsilon, weight_decay;
  T correction1, sqrt_correction2;
  /// 1 - beta1 and 1 - beta2, rounded once from double.
  T one_minus_beta1, one_minus_beta2;
};

/// One step of RMSProp.
template <class T>
struct RmspropStep {
  T rate, alpha, epsilon, momentum, weight_decay;
  T one_minus_alpha;  ///< rounded once from double
};

template <class T>
struct UpdateKernels {
  /// `buffer` is not touched when momentum is 0, and may then be null.
  void (*sgd)(const SgdStep<T>& step, const T* gradient, T* buffer, T* parameter, index_t n);
  /// m = lerp(m, g, 1 - beta1); v = beta2 v + (1 - beta2) g g; p -= rate / correction1 * m / (sqrt(v) / sqrt_correction2 + epsilon).
  /// adam adds weight_decay p to the gradient g first; adamw scales p by 1 - rate weight_decay first.
  void (*adam)(const AdamStep<T>& step, const T* gradient, T* m, T* v, T* parameter, index_t n);
  void (*adamw)(const AdamStep<T>& step, const T* gradient, T* m, T* v, T* parameter, index_t n);
  /// g += weight_decay p; square = alpha square + (1 - alpha) g g; centred: mean = lerp(mean, g, 1 - alpha) and v = max(square - mean mean, 0),
  /// else v = square; g /= sqrt(v) + epsilon; with momentum: g = buffer = momentum buffer + g. Then p -= rate g. A null `mean` means not
  /// centred; `buffer` may be null when momentum is 0.
  void (*rmsprop)(const RmspropStep<T>& step, const T* gradient, T* square, T* mean, T* buffer, T* parameter, index_t n);
};

}  // namespace gradus::kernels
