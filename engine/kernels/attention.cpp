#include "engine/kernels/attention.hpp"

#include "engine/kernels/math.hpp"
#include "engine/kernels/philox.hpp"
#include "engine/kernels/rows.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

template <class T>
constexpr T infinity = math::Format<T>::infinity;

template <class T>
GRADUS_INLINE Vec<T> zero_where(const Mask<T>& m, const Vec<T>& x) {
  return select(m, Vec<T>(T{0}), x);
}

template <class T, bool dropping>
void softmax_block_of(const SoftmaxBlock<T>& a) {
  constexpr int inputs = dropping ? 2 : 1;
  RowPointers<T, inputs> from{{a.scores}};
  if constexpr (dropping) from.in[1] = a.survival;
  for_rows<T, inputs>(from, a.weights, a.rows, a.n, [&](auto& row, index_t first) {
    const Vec<T> scale(a.scale), before = row.row_value(a.top + first);
    const Vec<T> top = greater_of(before, row.template reduce<GreatestNumber>([&](auto at) GRADUS_INLINE_LAMBDA { return scale * row.in(0, at); }));
    const Vec<T> shift = zero_where(top == Vec<T>(-infinity<T>), top);
    const Vec<T> sum = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA {
      const Vec<T> weight = math::exp_flush(scale * row.in(0, at) - shift);
      if constexpr (dropping) {
        const Vec<T> factor = row.in(1, at);
        row.set(at, zero_where(factor == Vec<T>(T{0}), factor * weight));
      } else {
        row.set(at, weight);
      }
      return weight;
    });
    const Vec<T> correction = math::exp_flush(before - shift);
    row.put_row(fma(row.row_value(a.total + first), correction, sum), a.total + first);
    row.put_row(correction, a.correction + first);
    row.put_row(top, a.top + first);
  });
}

template <class T>
void softmax_block(const SoftmaxBlock<T>& a) {
  if (a.survival != nullptr) softmax_block_of<T, true>(a);
  else softmax_block_of<T, false>(a);
}

// One row, vector by vector; `each(place)` is called with the places of whole vectors and of the rest.
template <class T, class F>
GRADUS_INLINE void for_vectors(index_t n, F&& each) {
  index_t j = 0;
  for (; j + width<T> <= n; j += width<T>) each(j, std::integral_constant<bool, true>{}, width<T>);
  if (j < n) each(j, std::integral_constant<bool, false>{}, n - j);
}

template <class T, bool dropping>
void softmax_block_backward_of(const SoftmaxBlockBackward<T>& a) {
  const Vec<T> scale(a.scale), slope(a.slope), zero(T{0});
  for (index_t i = 0; i < a.rows; ++i) {
    const Vec<T> top(a.top[i]), logarithm(a.logarithm[i]), mean(a.mean[i]);
    for_vectors<T>(a.n, [&](index_t j, auto full, index_t count) GRADUS_INLINE_LAMBDA {
      const index_t at = i * a.n + j;
      const auto get = [&](const T* p) GRADUS_INLINE_LAMBDA { return full ? load(p + at) : load_partial(p + at, count, T{0}); };
      const auto put = [&](T* p, const Vec<T>& v) GRADUS_INLINE_LAMBDA {
        if (full) store(p + at, v);
        else store_partial(p + at, v, count);
      };
      const Vec<T> weight = math::exp_flush((scale * get(a.scores) - top) - logarithm);
      Vec<T> kept = weight, upstream = get(a.upstream);
      if constexpr (dropping) {
        const Vec<T> factor = get(a.survival);
        const auto dropped = factor == zero;
        kept = zero_where(dropped, factor * weight);
        upstream = zero_where(dropped, factor * upstream);
      }
      put(a.weights, kept);
      put(a.upstream, zero_where(weight == zero, slope * (weight * (upstream - mean))));
    });
  }
}

template <class T>
void softmax_block_backward(const SoftmaxBlockBackward<T>& a) {
  if (a.survival != nullptr) softmax_block_backward_of<T, true>(a);
  else softmax_block_backward_of<T, false>(a);
}

template <class T>
void scale_rows(T* y, index_t rows, index_t n, const T* factors) {
  for (index_t i = 0; i < rows; ++i, y += n) {
    if (factors[i] == T{1}) continue;
    for (index_t j = 0; j < n; ++j) y[j] *= factors[i];
  }
}

template <class T>
void dot_rows(const T* a, const T* b, index_t rows, index_t n, T* y) {
  for_rows<T, 2>({{a, b}}, nullptr, rows, n, [&](auto& row, index_t first) {
    row.put_row(row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA {
      const Vec<T> left = row.in(0, at);
      return zero_where(left == Vec<T>(T{0}), left * row.in(1, at));
    }),
                y + first);
  });
}

template <class T>
void finish_distances(const T* x, index_t x_row, const T* sums, index_t rows, index_t n, bool hidden, T* y) {
  for (index_t i = 0; i < rows; ++i, x += x_row, y += n) {
    const T sum = sums[i];
    if (hidden && sum == T{0})
      for (index_t p = 0; p < n; ++p) y[p] = T{-2} * y[p];
    else
      for (index_t p = 0; p < n; ++p) y[p] = T{2} * (x[p] * sum - y[p]);
  }
}

template <class T>
void add_columns(const T* x, index_t rows, index_t n, T* sums) {
  for (index_t i = 0; i < rows; ++i, x += n)
    for (index_t j = 0; j < n; ++j) sums[j] += x[j];
}

template <class T>
void survival(const Survival<T>& s, std::uint64_t first, index_t stride, index_t rows, index_t n, T* out) {
  constexpr index_t group = survival_group;
  const Philox philox(s.seed, s.stream_key);
  alignas(64) std::uint32_t words[group];
  const std::uint32_t threshold = s.threshold;
  const T factor = s.factor;
  const auto choose = [&](index_t skip, index_t count, T* to) GRADUS_INLINE_LAMBDA {
    for (index_t e = 0; e < count; ++e) to[e] = words[skip + e] >= threshold ? factor : T{0};
  };
  for (index_t r = 0; r < rows; ++r, first += static_cast<std::uint64_t>(stride), out += n)
    for (index_t i = 0; i < n;) {
      const std::uint64_t index = first + static_cast<std::uint64_t>(i);
      philox.group(index / group, words);
      const auto skip = static_cast<index_t>(index % group);
      const index_t count = group - skip < n - i ? group - skip : n - i;
      if (count == group) choose(0, group, out + i);
      else choose(skip, count, out + i);
      i += count;
    }
}

template <class T>
constexpr AttentionKernels<T> table() {
  return {.softmax_block = softmax_block<T>,
          .softmax_block_backward = softmax_block_backward<T>,
          .scale_rows = scale_rows<T>,
          .dot_rows = dot_rows<T>,
          .finish_distances = finish_distances<T>,
          .add_columns = add_columns<T>,
          .survival = survival<T>};
}

}  // namespace

extern const AttentionKernels<float> attention_f32;
extern const AttentionKernels<double> attention_f64;
const AttentionKernels<float> attention_f32 = table<float>();
const AttentionKernels<double> attention_f64 = table<double>();

}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
