#include "engine/kernels/softmax.hpp"

#include "engine/kernels/math.hpp"
#include "engine/kernels/rows.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

template <class T>
constexpr T infinity = math::Format<T>::infinity;

// Masks of whole registers, by name.
template <class T>
GRADUS_INLINE Mask<T> is(const Vec<T>& x, T value) {
  return x == Vec<T>(value);
}
// x where m does not hold, 0 where it does; what is not selected is not looked at.
template <class T>
GRADUS_INLINE Vec<T> zero_where(const Mask<T>& m, const Vec<T>& x) {
  return select(m, Vec<T>(T{0}), x);
}

// The largest of a row, but 0 for a row of -inf, so that it can be subtracted. Of a row with NaN anything: the sum is NaN.
template <class View>
GRADUS_INLINE auto shift_of(View& row) {
  const auto greatest = row.template reduce<GreatestNumber>([&](auto at) GRADUS_INLINE_LAMBDA { return row.in(0, at); });
  using T = typename View::Element;
  return zero_where(is(greatest, -infinity<T>), greatest);
}

template <class T>
void softmax(const T* x, index_t rows, index_t n, T beta, T* y) {
  for_rows<T, 1>({x}, y, rows, n, [&](auto& row, index_t) {
    const Vec<T> shift = shift_of(row), factor(beta);
    const Vec<T> total = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA {
      const Vec<T> weight = math::exp_flush(factor * (row.in(0, at) - shift));
      row.set(at, weight);
      return weight;
    });
    // The largest entry weighs 1, so that only a row of -inf sums to 0.
    const Vec<T> share = Vec<T>(T{1}) / select(is(total, T{0}), Vec<T>(T{1}), total);
    row.each([&](auto at) GRADUS_INLINE_LAMBDA {
      const Vec<T> weight = row.out(at) * share;
      row.set(at, zero_where(weight < Vec<T>(math::Format<T>::smallest_normal), weight));
    });
  });
}

template <class T>
void softmax_backward(const T* y, const T* gy, index_t rows, index_t n, T beta, T* gx) {
  for_rows<T, 2>({y, gy}, gx, rows, n, [&](auto& row, index_t) {
    const Vec<T> factor(beta);
    const Vec<T> mean = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA {
      const Vec<T> weight = row.in(0, at);
      return zero_where(is(weight, T{0}), weight * row.in(1, at));
    });
    row.each([&](auto at) GRADUS_INLINE_LAMBDA {
      const Vec<T> weight = row.in(0, at);
      row.set(at, zero_where(is(weight, T{0}), factor * weight * (row.in(1, at) - mean)));
    });
  });
}

template <class T>
void log_softmax(const T* x, index_t rows, index_t n, T beta, T* y) {
  for_rows<T, 1>({x}, y, rows, n, [&](auto& row, index_t) {
    const Vec<T> shift = shift_of(row), factor(beta);
    const Vec<T> total = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return math::exp_flush(factor * (row.in(0, at) - shift)); });
    const auto masked = is(total, T{0});
    const Vec<T> log_total = zero_where(masked, math::log(total));
    row.each([&](auto at) GRADUS_INLINE_LAMBDA { row.set(at, factor * (row.in(0, at) - shift) - log_total); });
  });
}

template <class T>
void log_softmax_backward(const T* y, const T* gy, index_t rows, index_t n, T beta, T* gx) {
  for_rows<T, 2>({y, gy}, gx, rows, n, [&](auto& row, index_t) {
    const Vec<T> factor(beta);
    const Vec<T> total = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return zero_where(is(row.in(0, at), -infinity<T>), row.in(1, at)); });
    row.each([&](auto at) GRADUS_INLINE_LAMBDA {
      const Vec<T> log_weight = row.in(0, at);
      row.set(at, zero_where(is(log_weight, -infinity<T>), factor * (row.in(1, at) - math::exp_flush(log_weight) * total)));
    });
  });
}

template <class T>
void log_softmax_at(const T* x, index_t rows, index_t n, const std::int64_t* target, T* y, T* sums) {
  for_rows<T, 1>({x}, nullptr, rows, n, [&](auto& row, index_t first) {
    const Vec<T> shift = shift_of(row);
    const Vec<T> total = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return math::exp_flush(row.in(0, at) - shift); });
    const Vec<T> log_total = zero_where(is(total, T{0}), math::log(total));
    alignas(64) T shifts[width<T>], logs[width<T>];
    row.put_row(shift, shifts);
    row.put_row(log_total, logs);
    for (index_t r = 0; r < row.rows(); ++r) {
      const index_t at = first + r;
      y[at] = (x[at * n + target[at]] - shifts[r]) - logs[r];
      sums[2 * at] = shifts[r];
      sums[2 * at + 1] = logs[r];
    }
  });
}

template <class T>
void log_softmax_at_backward(const T* x, const T* y, const T* gy, const T* sums, index_t rows, index_t n, const std::int64_t* target, T* gx) {
  for (index_t r = 0; r < rows; ++r, x += n, gx += n) {
    const T g = y[r] == -infinity<T> ? T{0} : gy[r];
    const Vec<T> shift(sums[2 * r]), log_total(sums[2 * r + 1]), factor(-g);
    index_t j = 0;
    for (; j + width<T> <= n; j += width<T>) store(gx + j, factor * math::exp_flush((load(x + j) - shift) - log_total));
    if (j < n) store_partial(gx + j, factor * math::exp_flush((load_partial(x + j, n - j, T{0}) - shift) - log_total), n - j);
    gx[target[r]] += g;
  }
}

template <class T>
void logsumexp(const T* x, index_t rows, index_t n, T* y) {
  for_rows<T, 1>({x}, nullptr, rows, n, [&](auto& row, index_t first) {
    const Vec<T> greatest = row.template reduce<Greatest>([&](auto at) GRADUS_INLINE_LAMBDA { return row.in(0, at); });
    const Vec<T> total = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return math::exp_flush(row.in(0, at) - greatest); });
    row.put_row(select(is(abs(greatest), infinity<T>), greatest, greatest + math::log(total)), y + first);
  });
}

template <class T>
void hardmax(const T* x, index_t rows, index_t n, T tolerance, T* y) {
  for_rows<T, 1>({x}, y, rows, n, [&](auto& row, index_t) {
    const Vec<T> one(T{1}), zero(T{0});
    const Vec<T> greatest = row.template reduce<Greatest>([&](auto at) GRADUS_INLINE_LAMBDA { return row.in(0, at); });
    const Vec<T> slack = Vec<T>(tolerance) * (one + abs(greatest));
    const Vec<T> bound = select(is(abs(greatest), infinity<T>), greatest, greatest - slack);
    const Vec<T> ties = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return select(row.in(0, at) >= bound, one, zero); });
    const Vec<T> share = select(is_nan(greatest), greatest, zero_where(is(greatest, -infinity<T>), one / ties));
    const Vec<T> other = select(is_nan(greatest), greatest, zero);
    row.each([&](auto at) GRADUS_INLINE_LAMBDA { row.set(at, select(row.in(0, at) >= bound, share, other)); });
  });
}

template <class T>
index_t normalize(const T* x, index_t rows, index_t n, T* y) {
  index_t zero_rows = 0;
  for_rows<T, 1>({x}, y, rows, n, [&](auto& row, index_t) {
    const Vec<T> total = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return row.in(0, at); });
    const auto empty = is(total, T{0});
    zero_rows += row.count(empty);
    row.each([&](auto at) GRADUS_INLINE_LAMBDA { row.set(at, zero_where(empty, row.in(0, at) / total)); });
  });
  return zero_rows;
}

template <class T>
void normalize_backward(const T* x, const T* y, const T* gy, index_t rows, index_t n, T* gx) {
  for_rows<T, 3>({x, y, gy}, gx, rows, n, [&](auto& row, index_t) {
    const Vec<T> total = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return row.in(0, at); });
    const Vec<T> mean = row.template reduce<Sum>([&](auto at) GRADUS_INLINE_LAMBDA { return row.in(1, at) * row.in(2, at); });
    row.each([&](auto at) GRADUS_INLINE_LAMBDA { row.set(at, zero_where(is(total, T{0}), (row.in(2, at) - mean) / total)); });
  });
}

template <class T>
constexpr SoftmaxKernels<T> table() {
  return {.softmax = softmax<T>,
          .softmax_backward = softmax_backward<T>,
          .log_softmax = log_softmax<T>,
          .log_softmax_backward = log_softmax_backward<T>,
          .log_softmax_at = log_softmax_at<T>,
          .log_softmax_at_backward = log_softmax_at_backward<T>,
          .logsumexp = logsumexp<T>,
          .hardmax = hardmax<T>,
          .normalize = normalize<T>,
          .normalize_backward = normalize_backward<T>};
}

}  // namespace

extern const SoftmaxKernels<float> softmax_f32;
extern const SoftmaxKernels<double> softmax_f64;
const SoftmaxKernels<float> softmax_f32 = table<float>();
const SoftmaxKernels<double> softmax_f64 = table<double>();

}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
