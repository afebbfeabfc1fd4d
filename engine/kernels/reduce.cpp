#include "engine/kernels/reduce.hpp"

#include "engine/kernels/rows.hpp"
#include "engine/kernels/tree.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

// One block after another: the processor overlaps them by itself, and foresees one stream of memory better than several.
template <class Op, class T>
GRADUS_INLINE Lanes<T> row_lanes(const T* x, index_t n) {
  return reduce_lanes<Op, T>(
      n, [&](index_t i) GRADUS_INLINE_LAMBDA { return Lanes<T>::load(x + i); },
      [&](index_t i, index_t count) GRADUS_INLINE_LAMBDA { return Lanes<T>::load_partial(x + i, count, Op::template identity<T>); });
}

template <class Op, class T>
void rows_partial(const T* x, index_t n, T* lanes) {
  row_lanes<Op>(x, n).store(lanes);
}

template <class Op, class T>
void rows(const T* x, index_t row_count, index_t n, index_t row_stride, T* y) {
  index_t row = 0;
  if (n <= lane_count) {
    for (; row < row_count; row += width<T>) {
      ShortRows<T, 1> group({x + row * row_stride}, n, row_stride, row_count - row);
      group.put_row(group.template reduce<Op>([&](index_t i) GRADUS_INLINE_LAMBDA { return group.in(0, i); }), y + row);
    }
  }
  for (; row < row_count; ++row) y[row] = merge_lanes<Op>(row_lanes<Op>(x + row * row_stride, n));
}

// Outputs of columns taken at a time: whole cache lines, and few enough that the levels of the tree stay in the nearest cache.
template <class T>
constexpr index_t columns_at_once = 256 / static_cast<index_t>(sizeof(T));

// Sixteen lanes of up to columns_at_once outputs.
template <class T>
struct ColumnLanes {
  alignas(64) T lane[lane_count][columns_at_once<T>];
};

// The tree of reduce.hpp on many columns side by side; the result is in the first of the levels.
template <class Op, class T>
class ColumnTree {
 public:
  // `count` <= columns_at_once outputs. What pads the last vector of outputs is computed and never written.
  explicit ColumnTree(index_t count) : vectors_((count + width<T> - 1) / width<T>), last_(count - (vectors_ - 1) * width<T>) {}

  const ColumnLanes<T>& run(const T* x, index_t n, index_t stride) {
    index_t depth = 0, blocks = 0;
    for (index_t start = 0; start < n || blocks == 0; start += block_length) {
      take_block(levels_[depth], x + start * stride, n - start < block_length ? n - start : block_length, stride);
      for (index_t carry = blocks++; (carry & 1) != 0; carry >>= 1, --depth) merge(levels_[depth - 1], levels_[depth]);
      ++depth;
    }
    for (--depth; depth > 0; --depth) merge(levels_[depth - 1], levels_[depth]);
    return levels_[0];
  }

 private:
  void take_block(ColumnLanes<T>& sums, const T* x, index_t n, index_t stride) {
    const Vec<T> identity(Op::template identity<T>);
    for (auto& lane : sums.lane)
      for (index_t v = 0; v < vectors_; ++v) identity.store_aligned(lane + v * width<T>);
    for (index_t i = 0; i < n; ++i, x += stride) {
      T* lane = sums.lane[i % lane_count];
      for (index_t v = 0; v < vectors_; v += 64 / static_cast<index_t>(sizeof(Vec<T>))) __builtin_prefetch(x + lane_count * stride + v * width<T>);
      for (index_t v = 0; v < vectors_ - 1; ++v) accumulate(lane + v * width<T>, load(x + v * width<T>));
      const T* tail = x + (vectors_ - 1) * width<T>;
      accumulate(lane + (vectors_ - 1) * width<T>, last_ == width<T> ? load(tail) : load_partial(tail, last_, Op::template identity<T>));
    }
  }
  void merge(ColumnLanes<T>& into, const ColumnLanes<T>& from) {
    for (index_t l = 0; l < lane_count; ++l)
      for (index_t v = 0; v < vectors_; ++v) accumulate(into.lane[l] + v * width<T>, Vec<T>::load_aligned(from.lane[l] + v * width<T>));
  }
  GRADUS_INLINE static void accumulate(T* p, const Vec<T>& v) { Op::apply(Vec<T>::load_aligned(p), v).store_aligned(p); }

  static constexpr int levels = 7;  // a full segment of 64 blocks has at most 6 levels waiting
  static_assert(segment_length == block_length << (levels - 1));
  ColumnLanes<T> levels_[levels];
  index_t vectors_, last_;
};

// Merges lanes side by side, whole vectors of outputs at a time.
template <class Op, class T>
GRADUS_INLINE Vec<T> merge_lane_vectors(Vec<T> (&lane)[lane_count]) {
  for (index_t half = lane_count / 2; half > 0; half /= 2)
    for (index_t l = 0; l < half; ++l) lane[l] = Op::apply(lane[l], lane[l + half]);
  return lane[0];
}

// Calls f(first, count) for the outputs, columns_at_once at a time.
template <class T, class F>
GRADUS_INLINE void for_columns(index_t inner, F&& f) {
  for (index_t j = 0; j < inner; j += columns_at_once<T>) f(j, inner - j < columns_at_once<T> ? inner - j : columns_at_once<T>);
}

template <class Op, class T>
void columns(const T* x, index_t n, index_t stride, index_t inner, T* y) {
  for_columns<T>(inner, [&](index_t first, index_t count) {
    ColumnTree<Op, T> tree(count);
    const ColumnLanes<T>& sums = tree.run(x + first, n, stride);
    for (index_t j = 0; j < count; j += width<T>) {
      Vec<T> lane[lane_count];
      for (index_t l = 0; l < lane_count; ++l) lane[l] = load(sums.lane[l] + j);
      const Vec<T> sum = merge_lane_vectors<Op, T>(lane);
      if (count - j >= width<T>) store(y + first + j, sum);
      else store_partial(y + first + j, sum, count - j);
    }
  });
}

template <class Op, class T>
void columns_partial(const T* x, index_t n, index_t stride, index_t inner, T* lanes) {
  for_columns<T>(inner, [&](index_t first, index_t count) {
    ColumnTree<Op, T> tree(count);
    const ColumnLanes<T>& sums = tree.run(x + first, n, stride);
    for (index_t l = 0; l < lane_count; ++l)
      for (index_t j = 0; j < count; ++j) lanes[l * inner + first + j] = sums.lane[l][j];
  });
}

// The upper levels of the tree, where an element is a whole segment.
template <class Op, class T>
void merge(const T* lanes, index_t segments, index_t inner, T* y) {
  constexpr int most_levels = 26;  // for 2^40 elements
  for (index_t j = 0; j < inner; j += width<T>) {
    const index_t count = inner - j < width<T> ? inner - j : width<T>;
    Vec<T> levels[most_levels][lane_count];
    index_t depth = 0;
    const auto merge_down = [&](index_t level) {
      for (index_t l = 0; l < lane_count; ++l) levels[level - 1][l] = Op::apply(levels[level - 1][l], levels[level][l]);
    };
    for (index_t segment = 0; segment < segments; ++segment) {
      const T* from = lanes + segment * lane_count * inner + j;
      for (index_t l = 0; l < lane_count; ++l) levels[depth][l] = load_partial(from + l * inner, count, Op::template identity<T>);
      ++depth;
      for (index_t carry = segment; (carry & 1) != 0; carry >>= 1) merge_down(--depth);
    }
    while (depth > 1) merge_down(--depth);
    store_partial(y + j, merge_lane_vectors<Op, T>(levels[0]), count);
  }
}

// Finds the extreme value, then its first place.
template <class Op, class T>
void arg_extreme(const T* x, index_t row_count, index_t n, index_t row_stride, index_t* y) {
  for (index_t row = 0; row < row_count; ++row, x += row_stride) {
    const T best = merge_lanes<Op>(row_lanes<Op>(x, n));
    const bool found_nan = best != best;
    const auto matches = [&](const Vec<T>& v) GRADUS_INLINE_LAMBDA { return found_nan ? is_nan(v) : v == Vec<T>(best); };
    index_t i = 0;
    while (i + width<T> <= n && !xsimd::any(matches(load(x + i)))) i += width<T>;
    while (found_nan ? x[i] == x[i] : x[i] != best) ++i;
    y[row] = i;
  }
}

template <class Op, class T>
constexpr ReductionKernels<T> kernels_of() {
  return {rows<Op, T>, columns<Op, T>, rows_partial<Op, T>, columns_partial<Op, T>, merge<Op, T>};
}
template <class T>
constexpr ReduceKernels<T> table() {
  return {.reductions = {kernels_of<Sum, T>(), kernels_of<Product, T>(), kernels_of<Greatest, T>(), kernels_of<Least, T>()},
          .argmax = arg_extreme<Greatest, T>,
          .argmin = arg_extreme<Least, T>};
}

}  // namespace

extern const ReduceKernels<float> reduce_f32;
extern const ReduceKernels<double> reduce_f64;
const ReduceKernels<float> reduce_f32 = table<float>();
const ReduceKernels<double> reduce_f64 = table<double>();

}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
