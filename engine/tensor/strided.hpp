#pragma once
// Loops over strided operands: axes that can be merged are, and the innermost axis is handed over as one run.

#include <algorithm>
#include <array>

#include "engine/tensor/tensor.hpp"

namespace gradus {

/// A loop nest over one shape and N operands' strides, with adjacent axes merged where every operand allows it.
template <std::size_t N>
class StridedLoop {
 public:
  /// `strides[i]` has the rank of `shape`; axes of size 1 are dropped.
  StridedLoop(const Shape& shape, const std::array<Strides, N>& strides) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] == 1) continue;
      if (shape_.rank() > 0 && mergeable(shape[axis], axis, strides)) {
        shape_[shape_.rank() - 1] *= shape[axis];
        for (std::size_t i = 0; i < N; ++i) strides_[i][shape_.rank() - 1] = strides[i][axis];
      } else {
        shape_.push_back(shape[axis]);
        for (std::size_t i = 0; i < N; ++i) strides_[i].push_back(strides[i][axis]);
      }
    }
    if (shape_.rank() == 0) {
      shape_.push_back(1);
      for (std::size_t i = 0; i < N; ++i) strides_[i].push_back(1);
    }
  }

  /// Elements in one run (the innermost merged axis).
  [[nodiscard]] index_t run() const noexcept { return shape_.back(); }
  /// Number of runs.
  [[nodiscard]] index_t runs() const noexcept {
    index_t count = 1;
    for (int i = 0; i + 1 < shape_.rank(); ++i) count *= shape_[i];
    return shape_.back() == 0 ? 0 : count;
  }
  /// Step of operand i inside a run.
  [[nodiscard]] index_t step(std::size_t i) const noexcept { return strides_[i].back(); }
  /// The merged axes, the last being the run, and the steps of operand i along them.
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] const Strides& strides(std::size_t i) const noexcept { return strides_[i]; }
  /// Element offsets of all operands at the start of run r.
  [[nodiscard]] std::array<index_t, N> start(index_t r) const noexcept {
    std::array<index_t, N> at{};
    for (int axis = shape_.rank() - 2; axis >= 0; --axis) {
      const index_t position = r % shape_[axis];
      r /= shape_[axis];
      for (std::size_t i = 0; i < N; ++i) at[i] += position * strides_[i][axis];
    }
    return at;
  }
  /// Calls f(offsets) for the runs [begin, end), whose starts it finds by adding strides where it can.
  template <class F>
  void each_run(index_t begin, index_t end, F&& f) const {
    const int axis = shape_.rank() - 2;
    const index_t neighbours = axis >= 0 ? shape_[axis] : 1;
    for (index_t r = begin; r < end;) {
      auto at = start(r);
      for (const index_t last = std::min(end, (r / neighbours + 1) * neighbours); r < last; ++r) {
        f(at);
        for (std::size_t i = 0; axis >= 0 && i < N; ++i) at[i] += strides_[i][axis];
      }
    }
  }

 private:
  [[nodiscard]] bool mergeable(index_t size, int axis, const std::array<Strides, N>& strides) const noexcept {
    for (std::size_t i = 0; i < N; ++i)
      if (strides_[i].back() != strides[i][axis] * size) return false;
    return true;
  }
  Shape shape_;
  std::array<Strides, N> strides_;
};

/// Calls f(offset) for every element in row-major order; the offset is in elements from data().
template <class F>
void for_each_offset(const Tensor& t, F&& f) {
  if (t.numel() == 0) return;
  const StridedLoop<1> loop(t.shape(), {t.strides()});
  for (index_t r = 0; r < loop.runs(); ++r) {
    const index_t start = loop.start(r)[0];
    for (index_t i = 0; i < loop.run(); ++i) f(start + i * loop.step(0));
  }
}

}  // namespace gradus
