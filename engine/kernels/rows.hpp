#pragma once
// One algorithm on rows, two ways to run it with the same bits: along a long row, vector by vector, or across several short rows at
// once. An algorithm is a generic function of LongRow or ShortRows; `at` is a place in the row, values are Vec<T>, and what concerns the
// row as a whole is the same in every element (LongRow) or each row's own (ShortRows). Only kernel implementations include this file.

#include "engine/kernels/tail.hpp"
#include "engine/kernels/transpose_square.hpp"
#include "engine/kernels/tree.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

template <class T, int inputs>
struct RowPointers {
  const T* in[inputs];
};

template <class T, int inputs>
class LongRow {
 public:
  using Element = T;

  LongRow(RowPointers<T, inputs> from, T* to, index_t n) : from_(from), to_(to), n_(n) {}

  struct Full {
    index_t i;
  };
  struct Part {
    index_t i, count;
  };

  [[nodiscard]] GRADUS_INLINE Vec<T> in(int k, Full at) const { return load(from_.in[k] + at.i); }
  [[nodiscard]] GRADUS_INLINE Vec<T> in(int k, Part at) const { return load_partial(from_.in[k] + at.i, at.count, T{1}); }
  [[nodiscard]] GRADUS_INLINE Vec<T> out(Full at) const { return load(to_ + at.i); }
  [[nodiscard]] GRADUS_INLINE Vec<T> out(Part at) const { return load_partial(to_ + at.i, at.count, T{1}); }
  GRADUS_INLINE void set(Full at, const Vec<T>& v) { store(to_ + at.i, v); }
  GRADUS_INLINE void set(Part at, const Vec<T>& v) { store_partial(to_ + at.i, v, at.count); }

  /// Calls f(at) for the places of the row in order.
  template <class F>
  GRADUS_INLINE void each(F&& f) {
    index_t i = 0;
    for (; i + width<T> <= n_; i += width<T>) f(Full{i});
    if (i < n_) f(Part{i, n_ - i});
  }
  /// The reduction of f(at).
  template <class Op, class F>
  GRADUS_INLINE Vec<T> reduce(F&& f) {
    const auto full = [&](index_t i) GRADUS_INLINE_LAMBDA {
      Lanes<T> r;
      for (index_t v = 0; v < Lanes<T>::vectors; ++v) r.v[v] = f(Full{i + v * width<T>});
      return r;
    };
    const auto part = [&](index_t i, index_t count) GRADUS_INLINE_LAMBDA {
      const Vec<T> identity(Op::template identity<T>);
      alignas(64) T lanes[lane_count];
      Lanes<T>::splat(Op::template identity<T>).store(lanes);
      for (index_t v = 0; v < count; v += width<T>) {
        const index_t left = count - v < width<T> ? count - v : width<T>;
        select(first_mask<T>(left), f(Part{i + v, left}), identity).store_aligned(lanes + v);
      }
      return Lanes<T>::load(lanes);
    };
    return Vec<T>(merge_lanes<Op>(reduce_lanes<Op, T>(n_, full, part)));
  }
  /// The row's value from *p, and to it.
  GRADUS_INLINE Vec<T> row_value(const T* p) const { return Vec<T>(*p); }
  GRADUS_INLINE void put_row(const Vec<T>& v, T* p) const { store_partial(p, v, 1); }
  /// Rows that are worked on.
  [[nodiscard]] GRADUS_INLINE static constexpr index_t rows() { return 1; }
  /// Rows for which the mask holds.
  [[nodiscard]] GRADUS_INLINE index_t count(const Mask<T>& m) const { return xsimd::any(m) ? 1 : 0; }

 private:
  RowPointers<T, inputs> from_;
  T* to_;
  index_t n_;
};

/// Up to width rows of n <= 16 elements, transposed into vectors of one element of each row. Rows that are not there are ones.
template <class T, int inputs>
class ShortRows {
 public:
  using Element = T;

  GRADUS_INLINE ShortRows(RowPointers<T, inputs> from, index_t n, index_t stride, index_t rows) : n_(n), rows_(rows < width<T> ? rows : width<T>) {
    for (int k = 0; k < inputs; ++k)
      for (index_t i = 0; i < n; i += width<T>) {
        const index_t count = n - i < width<T> ? n - i : width<T>;
        Vec<T> v[width<T>];
#pragma GCC unroll 16
        for (index_t row = 0; row < width<T>; ++row) v[row] = row < rows_ ? load_partial(from.in[k] + row * stride + i, count, T{1}) : Vec<T>(T{1});
        exchange_all<width<T> / 2>(v);
#pragma GCC unroll 16
        for (index_t e = 0; e < width<T>; ++e)
          if (e < count) v[e].store_aligned(in_[k][i + e]);
      }
  }

  [[nodiscard]] GRADUS_INLINE Vec<T> in(int k, index_t at) const { return Vec<T>::load_aligned(in_[k][at]); }
  [[nodiscard]] GRADUS_INLINE Vec<T> out(index_t at) const { return Vec<T>::load_aligned(out_[at]); }
  GRADUS_INLINE void set(index_t at, const Vec<T>& v) { v.store_aligned(out_[at]); }

  template <class F>
  GRADUS_INLINE void each(F&& f) {
    for (index_t i = 0; i < n_; ++i) f(i);
  }
  template <class Op, class F>
  GRADUS_INLINE Vec<T> reduce(F&& f) {
    const Vec<T> identity(Op::template identity<T>);
    Vec<T> lane[lane_count];
    for (Vec<T>& v : lane) v = identity;
    for (index_t i = 0; i < n_; ++i) lane[i] = Op::apply(identity, f(i));
    for (index_t half = lane_count / 2; half > 0; half /= 2)
      for (index_t i = 0; i < half; ++i) lane[i] = Op::apply(lane[i], lane[i + half]);
    return lane[0];
  }
  GRADUS_INLINE Vec<T> row_value(const T* p) const { return rows_ == width<T> ? load(p) : load_partial(p, rows_, T{1}); }
  GRADUS_INLINE void put_row(const Vec<T>& v, T* p) const {
    if (rows_ == width<T>) store(p, v);
    else store_partial(p, v, rows_);
  }
  [[nodiscard]] GRADUS_INLINE index_t rows() const { return rows_; }
  [[nodiscard]] GRADUS_INLINE index_t count(const Mask<T>& m) const {
    alignas(64) T flags[width<T>];
    select(m, Vec<T>(T{1}), Vec<T>(T{0})).store_aligned(flags);
    index_t total = 0;
    for (index_t row = 0; row < rows_; ++row) total += flags[row] != T{0} ? 1 : 0;
    return total;
  }
  /// What was set, back into rows of n elements.
  GRADUS_INLINE void write(T* to) const {
    for (index_t i = 0; i < n_; i += width<T>) {
      const index_t count = n_ - i < width<T> ? n_ - i : width<T>;
      Vec<T> v[width<T>];
#pragma GCC unroll 16
      for (index_t e = 0; e < width<T>; ++e) v[e] = e < count ? Vec<T>::load_aligned(out_[i + e]) : Vec<T>(T{0});
      exchange_all<width<T> / 2>(v);
#pragma GCC unroll 16
      for (index_t row = 0; row < width<T>; ++row)
        if (row < rows_) store_tail(to + row * n_ + i, v[row], count);
    }
  }

 private:
  alignas(64) T in_[inputs][lane_count][width<T>];
  alignas(64) T out_[lane_count][width<T>];
  index_t n_, rows_;
};

/// Runs f(view, row) over contiguous rows; f sets the outputs at every place, or, when `to` is null, at none.
template <class T, int inputs, class F>
GRADUS_INLINE void for_rows(RowPointers<T, inputs> from, T* to, index_t rows, index_t n, F&& f) {
  const auto at_row = [&](index_t row) {
    RowPointers<T, inputs> p = from;
    for (auto& in : p.in) in += row * n;
    return p;
  };
  if (n <= lane_count) {
    for (index_t row = 0; row < rows; row += width<T>) {
      ShortRows<T, inputs> group(at_row(row), n, n, rows - row);
      f(group, row);
      if (to != nullptr) group.write(to + row * n);
    }
  } else {
    for (index_t row = 0; row < rows; ++row) {
      LongRow<T, inputs> view(at_row(row), to != nullptr ? to + row * n : nullptr, n);
      f(view, row);
    }
  }
}

}  // namespace
}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
