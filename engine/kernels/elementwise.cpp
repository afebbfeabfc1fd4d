#include "engine/kernels/elementwise.hpp"

#include "engine/kernels/activations.hpp"
#include "engine/kernels/math.hpp"
#include "engine/kernels/pow.hpp"
#include "engine/kernels/trig.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

// An operand of n elements, or of one for all when its step is 0. What pads a tail is 1, which every function takes quietly.
template <class T>
class Operand {
 public:
  GRADUS_INLINE Operand(const T* p, index_t step, index_t n) : p_(p), constant_(step == 0), value_(n > 0 ? *p : T{1}) {}
  [[nodiscard]] GRADUS_INLINE Vec<T> at(index_t i, index_t left) const {
    if (constant_) return value_;
    return left >= width<T> ? load(p_ + i) : load_partial(p_ + i, left, T{1});
  }

 private:
  const T* p_;
  bool constant_;
  Vec<T> value_;
};

template <class T>
GRADUS_INLINE void put(T* y, const Vec<T>& v, index_t left) {
  if (left >= width<T>) store(y, v);
  else store_partial(y, v, left);
}
// Masks in memory are bytes, 0 or 1. The low byte of every integer is picked out of the register as bytes.
using RegisterBytes [[gnu::vector_size(sizeof(Vec<float>))]] = std::uint8_t;

template <class T, std::size_t... i>
GRADUS_INLINE auto low_bytes(const Vec<UInt<T>>& v, std::index_sequence<i...>) {
  const auto bytes = (RegisterBytes) static_cast<typename Vec<UInt<T>>::register_type>(v);
  return __builtin_shufflevector(bytes, bytes, (i * sizeof(T))...);
}
template <class T>
GRADUS_INLINE void put(std::uint8_t* y, const Mask<T>& m, index_t left) {
  const Vec<UInt<T>> ones = to_bits(select(m, from_bits<T>(Vec<UInt<T>>(UInt<T>{1})), Vec<T>(T{0})));
  const auto bytes = low_bytes<T>(ones, std::make_index_sequence<Vec<T>::size>());
  if (left >= width<T>) __builtin_memcpy(y, &bytes, sizeof bytes);
  else __builtin_memcpy(y, &bytes, static_cast<std::size_t>(left));
}
template <class T>
GRADUS_INLINE Mask<T> condition_at(const std::uint8_t* c, index_t step, index_t left) {
  alignas(64) UInt<T> wide[width<T>] = {};
  if (step != 0 && left >= width<T>)
    for (index_t i = 0; i < width<T>; ++i) wide[i] = c[i];
  else
    for (index_t i = 0; i < width<T> && i < left; ++i) wide[i] = c[i * step];
  // 1 becomes the number 2, 0 the number 1: as it stands, a 1 is a denormal, and threads that flush those would see 0.
  return from_bits<T>((Vec<UInt<T>>::load_aligned(wide) << math::Format<T>::mantissa_bits) + Vec<UInt<T>>(math::Format<T>::one)) > Vec<T>(T{1});
}

// Whole vectors and the tail go through one copy of f.
template <class T, class F>
GRADUS_INLINE void map(const T* x, T* y, index_t n, F&& f) {
  for (index_t i = 0; i < n; i += width<T>) put(y + i, f(n - i >= width<T> ? load(x + i) : load_partial(x + i, n - i, T{1})), n - i);
}
template <class T, class U, class F>
GRADUS_INLINE void zip(const T* a, index_t a_step, const T* b, index_t b_step, U* y, index_t n, F&& f) {
  const Operand<T> left(a, a_step, n), right(b, b_step, n);
  for (index_t i = 0; i < n; i += width<T>) put<T>(y + i, f(left.at(i, n - i), right.at(i, n - i)), n - i);
}

// The functions of the lists in elementwise.hpp, on float and double.
#define GRADUS_UNARY(name, formula)                             \
  template <class T>                                            \
  void unary_##name(const T* from, T* to, index_t n) {          \
    map(from, to, n, [](const Vec<T>& x) GRADUS_INLINE_LAMBDA { \
      [[maybe_unused]] const Vec<T> zero(T{0}), one(T{1});      \
      return formula;                                           \
    });                                                         \
  }
#define GRADUS_BINARY(name, formula)                                                                                               \
  template <class T>                                                                                                               \
  void binary_##name(const T* left, index_t left_step, const T* right, index_t right_step, T* to, index_t n) {                     \
    zip(left, left_step, right, right_step, to, n, [](const Vec<T>& a, const Vec<T>& b) GRADUS_INLINE_LAMBDA { return formula; }); \
  }
#define GRADUS_COMPARE(name, formula)                                                                                              \
  template <class T>                                                                                                               \
  void compare_##name(const T* left, index_t left_step, const T* right, index_t right_step, std::uint8_t* to, index_t n) {         \
    zip(left, left_step, right, right_step, to, n, [](const Vec<T>& a, const Vec<T>& b) GRADUS_INLINE_LAMBDA { return formula; }); \
  }
GRADUS_UNARY_KERNELS(GRADUS_UNARY)
GRADUS_BINARY_KERNELS(GRADUS_BINARY)
GRADUS_COMPARE_KERNELS(GRADUS_COMPARE)

template <class T>
void select_elements(const std::uint8_t* c, index_t c_step, const T* a, index_t a_step, const T* b, index_t b_step, T* y, index_t n) {
  const Operand<T> left(a, a_step, n), right(b, b_step, n);
  for (index_t i = 0; i < n; i += width<T>) put(y + i, select(condition_at<T>(c + i * c_step, c_step, n - i), left.at(i, n - i), right.at(i, n - i)), n - i);
}

template <class T>
void fill(T value, T* y, index_t n) {
  for (index_t i = 0; i < n; i += width<T>) put(y + i, Vec<T>(value), n - i);
}

template <class T>
void scale_add(T alpha, const T* x, T* y, index_t n) {
  const Vec<T> factor(alpha);
  zip(x, 1, y, 1, y, n, [&](const Vec<T>& a, const Vec<T>& b) GRADUS_INLINE_LAMBDA { return fma(factor, a, b); });
}

template <class T>
constexpr ElementwiseKernels<T> table() {
#define GRADUS_UNARY_ENTRY(name, formula) unary_##name<T>,
#define GRADUS_BINARY_ENTRY(name, formula) binary_##name<T>,
#define GRADUS_COMPARE_ENTRY(name, formula) compare_##name<T>,
  return {.unary = {GRADUS_UNARY_KERNELS(GRADUS_UNARY_ENTRY)},
          .binary = {GRADUS_BINARY_KERNELS(GRADUS_BINARY_ENTRY)},
          .compare = {GRADUS_COMPARE_KERNELS(GRADUS_COMPARE_ENTRY)},
          .select = select_elements<T>,
          .fill = fill<T>,
          .scale_add = scale_add<T>};
}

}  // namespace

extern const ElementwiseKernels<float> elementwise_f32;
extern const ElementwiseKernels<double> elementwise_f64;
const ElementwiseKernels<float> elementwise_f32 = table<float>();
const ElementwiseKernels<double> elementwise_f64 = table<double>();

}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
