#include "engine/kernels/norm.hpp"

#include "engine/kernels/rows.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

template <class T>
struct Statistics {
  Vec<T> mean, scale;
};

template <class T, bool centred, class View>
GRADUS_INLINE Statistics<T> statistics_of(View& row, index_t n, T eps) {
  const Vec<T> count(static_cast<T>(n)), one(T{1});
  Vec<T> mean(T{0});
  if constexpr (centred) mean = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return row.in(0, at); }) / count;
  const Vec<T> squares = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA {
    const Vec<T> deviation = centred ? row.in(0, at) - mean : row.in(0, at);
    return deviation * deviation;
  });
  return {mean, one / sqrt(squares / count + Vec<T>(eps))};
}

template <class T, bool centred>
void forward(const RowNormArgs<T>& a, T* y) {
  for_rows<T, 1>({{a.x}}, y, a.rows, a.n, [&](auto& row, index_t) {
    const Statistics<T> s = statistics_of<T, centred>(row, a.n, a.eps);
    row.each([&](auto at) GRADUS_INLINE_LAMBDA {
      Vec<T> v = (centred ? row.in(0, at) - s.mean : row.in(0, at)) * s.scale;
      if (a.weight != nullptr) v = v * row.shared(a.weight, at);
      if (a.bias != nullptr) v = v + row.shared(a.bias, at);
      row.set(at, v);
    });
  });
}

// Rows worked on between two passes over them: their statistics are kept, and they stay cached.
constexpr index_t some_rows = 16;

// gx = s (u - mean(u) - z mean(u z)) for u = g weight and z the normalised row, without mean(u) unless centred.
template <class T, bool centred>
void backward_to_rows(const RowNormArgs<T>& a, const T* g, T* gx, T* means, T* scales) {
  for_rows<T, 2>({{a.x, g}}, gx, a.rows, a.n, [&](auto& row, index_t first) {
    const Statistics<T> s = statistics_of<T, centred>(row, a.n, a.eps);
    row.put_row(s.mean, means + first);
    row.put_row(s.scale, scales + first);
    if (gx == nullptr) return;
    const Vec<T> count(static_cast<T>(a.n));
    const auto upstream = [&](auto at) GRADUS_INLINE_LAMBDA { return a.weight != nullptr ? row.in(1, at) * row.shared(a.weight, at) : row.in(1, at); };
    const auto normal = [&](auto at) GRADUS_INLINE_LAMBDA { return (centred ? row.in(0, at) - s.mean : row.in(0, at)) * s.scale; };
    Vec<T> middle(T{0});
    if constexpr (centred) middle = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return upstream(at); }) / count;
    const Vec<T> along = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return upstream(at) * normal(at); }) / count;
    row.each([&](auto at) GRADUS_INLINE_LAMBDA { row.set(at, s.scale * ((upstream(at) - middle) - normal(at) * along)); });
  });
}

// gw += sum_i g_i z_i, gb += sum_i g_i.
template <class T>
void backward_to_columns(const RowNormArgs<T>& a, const T* g, const T* means, const T* scales, T* gw, T* gb) {
  const auto take = [&](index_t i, index_t j, index_t count) GRADUS_INLINE_LAMBDA {
    const bool full = count == width<T>;
    const auto get = [&](const T* p) GRADUS_INLINE_LAMBDA { return full ? load(p) : load_partial(p, count, T{0}); };
    const auto put = [&](T* p, const Vec<T>& v) GRADUS_INLINE_LAMBDA {
      if (full) store(p, v);
      else store_partial(p, v, count);
    };
    const Vec<T> up = get(g + i * a.n + j);
    if (gw != nullptr) put(gw + j, fma(up, (get(a.x + i * a.n + j) - Vec<T>(means[i])) * Vec<T>(scales[i]), get(gw + j)));
    if (gb != nullptr) put(gb + j, get(gb + j) + up);
  };
  for (index_t i = 0; i < a.rows; ++i) {
    index_t j = 0;
    for (; j + width<T> <= a.n; j += width<T>) take(i, j, width<T>);
    if (j < a.n) take(i, j, a.n - j);
  }
}

template <class T, bool centred>
void backward(const RowNormArgs<T>& args, const T* g, T* gx, T* gw, T* gb) {
  T means[some_rows], scales[some_rows];
  for (index_t i = 0; i < args.rows; i += some_rows) {
    RowNormArgs<T> some = args;
    some.rows = args.rows - i < some_rows ? args.rows - i : some_rows;
    some.x += i * args.n;
    const T* up = g + i * args.n;
    backward_to_rows<T, centred>(some, up, gx != nullptr ? gx + i * args.n : nullptr, means, scales);
    if (gw != nullptr || gb != nullptr) backward_to_columns(some, up, means, scales, gw, gb);
  }
}

template <class T>
void rows(const RowNormArgs<T>& args, T* y) {
  if (args.centred) forward<T, true>(args, y);
  else forward<T, false>(args, y);
}
template <class T>
void rows_backward(const RowNormArgs<T>& args, const T* g, T* gx, T* gw, T* gb) {
  if (args.centred) backward<T, true>(args, g, gx, gw, gb);
  else backward<T, false>(args, g, gx, gw, gb);
}

}  // namespace

extern const NormKernels<float> norm_f32;
extern const NormKernels<double> norm_f64;
const NormKernels<float> norm_f32{rows<float>, rows_backward<float>};
const NormKernels<double> norm_f64{rows<double>, rows_backward<double>};

}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
