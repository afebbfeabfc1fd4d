#include "engine/kernels/norm.hpp"

#include "engine/kernels/rows.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

// Places of a row beside it: of weight, bias and their gradients.
template <class T>
GRADUS_INLINE Vec<T> beside(const T* p, typename LongRow<T, 2>::Full at) {
  return load(p + at.i);
}
template <class T>
GRADUS_INLINE Vec<T> beside(const T* p, typename LongRow<T, 2>::Part at) {
  return load_partial(p + at.i, at.count, T{0});
}
template <class T>
GRADUS_INLINE void put_beside(T* p, typename LongRow<T, 2>::Full at, const Vec<T>& v) {
  store(p + at.i, v);
}
template <class T>
GRADUS_INLINE void put_beside(T* p, typename LongRow<T, 2>::Part at, const Vec<T>& v) {
  store_partial(p + at.i, v, at.count);
}

// What a row is shifted and scaled by.
template <class T>
struct Statistics {
  Vec<T> middle, scale;
};
template <bool centred, class T>
GRADUS_INLINE Statistics<T> statistics_of(LongRow<T, 2>& row, const Vec<T>& count, const Vec<T>& eps) {
  Vec<T> middle(T{0});
  if constexpr (centred) middle = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return row.in(0, at); }) / count;
  const Vec<T> squares = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA {
    const Vec<T> deviation = row.in(0, at) - middle;
    return deviation * deviation;
  });
  return {middle, Vec<T>(T{1}) / sqrt(squares / count + eps)};
}

template <bool centred, class T>
void forward(const RowNormArgs<T>& a, const T* bias, T* y) {
  const Vec<T> count(static_cast<T>(a.n)), eps(a.eps);
  for (index_t r = 0; r < a.rows; ++r) {
    const T* x = a.x + r * a.n;
    LongRow<T, 2> row({{x, x}}, y + r * a.n, a.n);
    const auto [middle, scale] = statistics_of<centred>(row, count, eps);
    row.each([&, middle = middle, scale = scale](auto at) GRADUS_INLINE_LAMBDA {
      Vec<T> v = (row.in(0, at) - middle) * scale;
      if (a.weight != nullptr) v = v * beside(a.weight, at);
      if (bias != nullptr) v = v + beside(bias, at);
      row.set(at, v);
    });
  }
}

// With u = g weight and the normalised y: gx = scale (u - mean(u) - y mean(u y)), without mean(u) unless centred.
template <bool centred, class T>
void backward(const RowNormArgs<T>& a, const T* g, T* gx, T* gw, T* gb) {
  const Vec<T> count(static_cast<T>(a.n)), eps(a.eps);
  for (index_t r = 0; r < a.rows; ++r) {
    LongRow<T, 2> row({{a.x + r * a.n, g + r * a.n}}, gx != nullptr ? gx + r * a.n : nullptr, a.n);
    const auto statistics = statistics_of<centred>(row, count, eps);
    const Vec<T> middle = statistics.middle, scale = statistics.scale;
    const auto normalised = [&](auto at) GRADUS_INLINE_LAMBDA { return (row.in(0, at) - middle) * scale; };
    const auto arrived = [&](auto at) GRADUS_INLINE_LAMBDA { return a.weight != nullptr ? row.in(1, at) * beside(a.weight, at) : row.in(1, at); };
    if (gw != nullptr || gb != nullptr)
      row.each([&](auto at) GRADUS_INLINE_LAMBDA {
        if (gw != nullptr) put_beside(gw, at, fma(row.in(1, at), normalised(at), beside(gw, at)));
        if (gb != nullptr) put_beside(gb, at, beside(gb, at) + row.in(1, at));
      });
    if (gx == nullptr) continue;
    Vec<T> along_one(T{0});
    if constexpr (centred) along_one = row.template reduce<Sum>(arrived) / count;
    const Vec<T> along_y = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return arrived(at) * normalised(at); }) / count;
    row.each([&](auto at) GRADUS_INLINE_LAMBDA { row.set(at, scale * (arrived(at) - along_one - normalised(at) * along_y)); });
  }
}

template <class T>
constexpr RowNormKernels<T> table() {
  return {forward<true, T>, forward<false, T>, backward<true, T>, backward<false, T>};
}

}  // namespace

extern const RowNormKernels<float> row_norm_f32;
extern const RowNormKernels<double> row_norm_f64;
const RowNormKernels<float> row_norm_f32 = table<float>();
const RowNormKernels<double> row_norm_f64 = table<double>();

}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
