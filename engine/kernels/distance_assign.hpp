#pragma once
// One pass of k-means over the points. Only distance.cpp includes it; internal linkage, see simd.hpp.

#include "engine/kernels/block_sums.hpp"
#include "engine/kernels/nearest.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

// One element of what fma does to vectors.
template <class T>
GRADUS_INLINE T multiply_add(T a, T b, T c) {
  if constexpr (!has_fma) return a * b + c;
  else if constexpr (sizeof(T) == sizeof(float)) return __builtin_fmaf(a, b, c);
  else return __builtin_fma(a, b, c);
}

// to[p] = fma(w, x[p], to[p]).
template <class T>
GRADUS_INLINE void add_weighted(T* to, T w, const T* x, index_t d) {
  index_t p = 0;
  for (; p + width<T> <= d; p += width<T>) store(to + p, fma(Vec<T>(w), load(x + p), load(to + p)));
  for (; p < d; ++p) to[p] = multiply_add(w, x[p], to[p]);
}

// The sums of one block: weights (k), then sums (k, d).
template <class T>
class BlockAssignment {
 public:
  BlockAssignment(const AssignArgs<T>& args, const Centres<T>& centres, T* sum)
      : args_(args), centres_(centres), weights_(sum), sums_(sum + args.k), row_(round_up(args.k, width<T>)) {}

  /// A point whose nearest centre at `least` and its next at `second` are numbers.
  GRADUS_INLINE void add(index_t i, T least, T second, index_t j) {
    const T bound = least + args_.tolerance * (T{1} + least);
    if (!(bound < std::numeric_limits<T>::infinity()) || second <= bound) return add_row(i);
    objective += static_cast<double>(least);
    add_to_centre(i, j, T{1});
    if (args_.labels != nullptr) args_.labels[i] = j;
  }
  /// Ties, NaN and infinite rows.
  [[gnu::noinline]] void add_row(index_t i) {
    const T* row = distance_row(args_.x + i * args_.x_row, centres_, row_.data());
    const T least = find_least(row, round_up(args_.k, width<T>)).distance, bound = least + args_.tolerance * (T{1} + least);
    objective += static_cast<double>(least);
    const index_t label = spread(i, row, bound);
    if (args_.labels != nullptr) args_.labels[i] = label;
  }

  double objective = 0;
  index_t tied = 0;

 private:
  GRADUS_INLINE void add_to_centre(index_t i, index_t j, T w) {
    weights_[j] += w;
    add_weighted(sums_ + j * args_.d, w, args_.x + i * args_.x_row, args_.d);
  }

  // Weight 1 over all centres within the bound; returns the label.
  index_t spread(index_t i, const T* row, T bound) {
    const index_t k = args_.k;
    index_t first_nan = k, count = 0;
    bool all_infinite = true;
    for (index_t j = k; j-- > 0;) {
      if (row[j] != row[j]) first_nan = j;
      all_infinite = all_infinite && row[j] == std::numeric_limits<T>::infinity();
      count += row[j] <= bound;
    }
    if (first_nan < k) {
      for (index_t j = 0; j < k; ++j) add_to_centre(i, j, bound);
      return first_nan;
    }
    if (all_infinite) return 0;
    index_t label = k;
    for (index_t j = k; j-- > 0;)
      if (row[j] <= bound) {
        label = j;
        add_to_centre(i, j, T{1} / static_cast<T>(count));
      }
    tied += count > 1;
    return label;
  }

  const AssignArgs<T>& args_;
  const Centres<T>& centres_;
  T *weights_, *sums_;
  Scratch<T> row_;
};

template <class T>
void assign_accumulate(const AssignArgs<T>& args) {
  const index_t blocks = block_count(args.n), size = args.k + args.k * args.d;
  Scratch<T> room(Centres<T>::elements(args.k, args.d)), sums(size);
  Scratch<double> objectives(blocks + 1);
  Scratch<index_t> ties(blocks + 1);
  objectives.data()[0] = 0;
  ties.data()[0] = 0;
  const Centres<T> centres = pack_centres(room.data(), args.c, args.c_row, args.k, args.d);
  sum_blocks(args.n, 2 * args.k * args.d, true, size, sums.data(), [&](index_t block, index_t begin, index_t end, T* sum) {
    Scratch<T> panel(NearestLanes<T>::elements(args.d));
    NearestLanes<T> lanes(panel.data(), args.c, args.c_row, args.k, args.d);
    BlockAssignment<T> assignment(args, centres, sum);
    for (index_t i = begin; i < end; i += NearestLanes<T>::lanes) {
      const index_t count = std::min(NearestLanes<T>::lanes, end - i);
      lanes.find(args.x + i * args.x_row, args.x_row, count);
      for (index_t l = 0; l < count; ++l)
        if (lanes.odd(l)) assignment.add_row(i + l);
        else assignment.add(i + l, lanes.least[l], lanes.second[l], static_cast<index_t>(lanes.index[l]));
    }
    objectives.data()[block] = assignment.objective;
    ties.data()[block] = assignment.tied;
  });
  merge_parts(objectives.data(), blocks, 1);
  merge_parts(ties.data(), blocks, 1);
  if (args.weights != nullptr) std::copy_n(sums.data(), args.k, args.weights);
  if (args.sums != nullptr) std::copy_n(sums.data() + args.k, args.k * args.d, args.sums);
  if (args.objective != nullptr) *args.objective = objectives.data()[0];
  if (args.tied != nullptr) *args.tied = ties.data()[0];
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
