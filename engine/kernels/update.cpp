#include "engine/kernels/update.hpp"

#include "engine/kernels/simd.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

// A span whose last vector may be short.
template <class T>
GRADUS_INLINE Vec<T> get(const T* p, index_t left) {
  return left >= width<T> ? load(p) : load_partial(p, left, T{0});
}
template <class T>
GRADUS_INLINE void put(T* p, const Vec<T>& v, index_t left) {
  if (left >= width<T>) store(p, v);
  else store_partial(p, v, left);
}

template <class T>
void sgd(const SgdStep<T>& step, const T* gradient, T* buffer, T* parameter, index_t n) {
  const Vec<T> rate(step.rate), momentum(step.momentum), decay(step.weight_decay);
  for (index_t i = 0; i < n; i += width<T>) {
    const index_t left = n - i;
    const Vec<T> p = get(parameter + i, left);
    Vec<T> g = get(gradient + i, left);
    if (step.weight_decay != T{0}) g = fma(decay, p, g);
    if (step.momentum != T{0}) {
      const Vec<T> b = step.first_step ? g : fma(momentum, get(buffer + i, left), g);
      put(buffer + i, b, left);
      g = step.nesterov ? fma(momentum, b, g) : b;
    }
    put(parameter + i, fnma(rate, g, p), left);
  }
}

template <bool decoupled, class T>
GRADUS_INLINE void adam_step(const AdamStep<T>& step, const T* gradient, T* m, T* v, T* parameter, index_t n) {
  const Vec<T> decay(step.weight_decay), keep(T{1} - step.rate * step.weight_decay), rate(step.rate / step.correction1);
  const Vec<T> beta2(step.beta2), take1(step.one_minus_beta1), take2(step.one_minus_beta2);
  const Vec<T> correction(step.sqrt_correction2), epsilon(step.epsilon);
  for (index_t i = 0; i < n; i += width<T>) {
    const index_t left = n - i;
    Vec<T> p = get(parameter + i, left), g = get(gradient + i, left);
    if constexpr (decoupled) p = p * keep;
    else if (step.weight_decay != T{0}) g = fma(decay, p, g);
    const Vec<T> before = get(m + i, left);
    const Vec<T> first = fma(take1, g - before, before);
    const Vec<T> second = fma(take2 * g, g, beta2 * get(v + i, left));
    put(m + i, first, left);
    put(v + i, second, left);
    put(parameter + i, p - rate * (first / (sqrt(second) / correction + epsilon)), left);
  }
}

template <class T>
void adam(const AdamStep<T>& step, const T* gradient, T* m, T* v, T* parameter, index_t n) {
  adam_step<false>(step, gradient, m, v, parameter, n);
}
template <class T>
void adamw(const AdamStep<T>& step, const T* gradient, T* m, T* v, T* parameter, index_t n) {
  adam_step<true>(step, gradient, m, v, parameter, n);
}

template <class T>
void rmsprop(const RmspropStep<T>& step, const T* gradient, T* square, T* mean, T* buffer, T* parameter, index_t n) {
  const Vec<T> rate(step.rate), alpha(step.alpha), take(step.one_minus_alpha), epsilon(step.epsilon), momentum(step.momentum), decay(step.weight_decay);
  const Vec<T> zero(T{0});
  for (index_t i = 0; i < n; i += width<T>) {
    const index_t left = n - i;
    const Vec<T> p = get(parameter + i, left);
    Vec<T> g = get(gradient + i, left);
    if (step.weight_decay != T{0}) g = fma(decay, p, g);
    Vec<T> v = fma(take * g, g, alpha * get(square + i, left));
    put(square + i, v, left);
    if (mean != nullptr) {
      const Vec<T> before = get(mean + i, left), centre = fma(take, g - before, before);
      put(mean + i, centre, left);
      v = fnma(centre, centre, v);
      v = xsimd::select(v < zero, zero, v);  // rounding may make the variance of a constant negative; NaN stays
    }
    g = g / (sqrt(v) + epsilon);
    if (step.momentum != T{0}) {
      g = fma(momentum, get(buffer + i, left), g);
      put(buffer + i, g, left);
    }
    put(parameter + i, fnma(rate, g, p), left);
  }
}

}  // namespace

extern const UpdateKernels<float> update_f32;
extern const UpdateKernels<double> update_f64;
const UpdateKernels<float> update_f32{sgd<float>, adam<float>, adamw<float>, rmsprop<float>};
const UpdateKernels<double> update_f64{sgd<double>, adam<double>, adamw<double>, rmsprop<double>};

}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
