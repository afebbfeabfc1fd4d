#pragma once
// One block of queries against one block of keys: its scores, its weights and their gradients. For attention_blocks.cpp only.

#include <optional>

#include "engine/core/random.hpp"
#include "engine/ops/attention_blocks.hpp"
#include "engine/ops/define.hpp"
#include "engine/tensor/strided.hpp"

namespace gradus::define {

// A block of scores stays in the second-level cache, and a product of blocks is worth the call.
inline constexpr index_t query_block = 64, key_block = 128;
inline constexpr int most_masks = 2;

struct Range {
  index_t begin, size;
};
[[nodiscard]] inline Range block_of(index_t index, index_t block, index_t all) { return {index * block, std::min(block, all - index * block)}; }
[[nodiscard]] inline index_t blocks_in(index_t all, index_t block) { return all > 0 ? (all + block - 1) / block : 0; }

// One thread's working memory, for blocks of up to so many queries and keys.
template <class T>
struct Workspace {
  Workspace(index_t queries, index_t keys)
      : raw(static_cast<std::size_t>(queries * keys)),
        scaled(raw.size()),
        upstream(raw.size()),
        top(static_cast<std::size_t>(queries)),
        logarithm(top.size()),
        pairs(2 * top.size()),
        keep(raw.size()) {}
  Scratch<T> raw;       // dot products or distances
  Scratch<T> scaled;    // scores with temperature and masks, then weights
  Scratch<T> upstream;  // dL/dweights, then dL/dscores
  Scratch<T> top, logarithm, pairs, room;
  Scratch<std::uint8_t> keep;
};

// Attention of a whole batch, block by block.
template <class T>
struct Blocks {
  static constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

  Shape batch;
  Tensor q, k, v;  // at the whole batch
  Scratch<Tensor> masks;
  index_t queries, keys, d, dv, items;
  bool softmax, causal, euclidean;
  T factor, scale;  // score = factor * raw, beta * score = scale * raw
  double dropout;
  Random random;
  std::optional<StridedLoop<3 + most_masks>> loop;

  Blocks(const AttentionInputs& in, const AttentionAttributes& a)
      : batch(in.batch()),
        q(expanded(with_side_by_side(in.q, a))),
        k(expanded(with_side_by_side(in.k, a))),
        v(expanded(in.v)),
        queries(in.q.size(-2)),
        keys(in.k.size(-2)),
        d(in.q.size(-1)),
        dv(in.v.size(-1)),
        items(numel(batch)),
        softmax(a.map == MapKind::softmax),
        causal(a.causal),
        euclidean(a.score == Score::euclidean),
        factor(static_cast<T>(score_factor(a.score, d))),
        scale(static_cast<T>(score_factor(a.score, d) * (in.beta.defined() ? in.beta.item() : a.inverse_temperature))),
        dropout(a.dropped ? a.dropout : 0),
        random(a.dropout_seed, a.dropped ? static_cast<std::uint64_t>(*in.stream.data<std::int64_t>()) : 0) {
    for (const Tensor& mask : in.masks) masks.push_back(view::expand(mask, with_matrix(batch, queries, keys)));
    std::array<Strides, 3 + most_masks> strides{batch_of(q.strides()), batch_of(k.strides()), batch_of(v.strides())};
    for (std::size_t i = 0; i < most_masks; ++i) strides[3 + i] = i < masks.size() ? batch_of(masks[i].strides()) : Dims::filled(batch.rank(), 0);
    loop.emplace(batch, strides);
  }

  // One element of the batch.
  struct Item {
    index_t index;
    MatrixView<const T> q, k, v;
    std::array<Keep, most_masks> keep;                    // bool masks; null data for others
    std::array<MatrixView<const T>, most_masks> shift{};  // additive masks
  };
  [[nodiscard]] Item item(index_t index) const {
    const auto at = loop->start(index / loop->run());
    const auto offset = [&](std::size_t operand) { return at[operand] + index % loop->run() * loop->step(operand); };
    const auto matrix = [&](const Tensor& t, std::size_t operand) {
      return MatrixView<const T>{t.data<T>() + offset(operand), t.strides()[t.rank() - 2], t.strides().back()};
    };
    Item one{index, matrix(q, 0), matrix(k, 1), matrix(v, 2), {}, {}};
    for (std::size_t i = 0; i < masks.size(); ++i) {
      const Tensor& mask = masks[i];
      if (mask.dtype() != DType::boolean) one.shift[i] = matrix(mask, 3 + i);
      else one.keep[i] = {reinterpret_cast<const std::uint8_t*>(mask.data<bool>() + offset(3 + i)), mask.strides()[mask.rank() - 2], mask.strides().back()};
    }
    return one;
  }

  // Which entries of a block are kept: null data when all are; false when none is.
  bool kept(const Item& one, Range rows, Range columns, Workspace<T>& w, Keep& keep) const {
    const bool diagonal = causal && columns.begin + columns.size > rows.begin + 1;
    keep = {};
    if (!diagonal && std::none_of(one.keep.begin(), one.keep.end(), [](const Keep& mask) { return mask.data != nullptr; })) return true;
    index_t count = 0;
    for (index_t i = 0; i < rows.size; ++i)
      for (index_t j = 0; j < columns.size; ++j) {
        bool on = !diagonal || columns.begin + j <= rows.begin + i;
        for (const Keep& mask : one.keep) on = on && (mask.data == nullptr || mask(rows.begin + i, columns.begin + j) != 0);
        w.keep[static_cast<std::size_t>(i * columns.size + j)] = on;
        count += on;
      }
    if (count < rows.size * columns.size) keep = {w.keep.data(), columns.size, 1};
    return count > 0;
  }

  // beta * score + masks of a block, in w.scaled, and the bare products or distances in w.raw; -inf or, for normalised linear
  // weights, 0 where an entry is masked.
  void scores(const Item& one, Range rows, Range columns, Workspace<T>& w, const Keep& keep) const {
    const MatrixView<const T> x = one.q.from(rows.begin, 0), c = one.k.from(columns.begin, 0);
    const index_t n = columns.size;
    if (euclidean) {
      kernels::DistanceArgs<T> args{.n = rows.size, .k = n, .d = d, .x = x.data, .x_row = x.row};
      args.c = c.data;
      args.c_row = c.row;
      args.out = w.raw.data();
      args.out_row = n;
      kernels::active<T>().distance.squared_distance(args);
    } else {
      product(rows.size, n, d, x, c.transposed(), w.raw.data());
    }
    T* raw = w.raw.data();
    T* z = w.scaled.data();
    for (index_t e = 0; e < rows.size * n; ++e) z[e] = scale * raw[e];
    const T masked = softmax ? minus_infinity : T{0};
    for (const MatrixView<const T>& shift : one.shift) {
      if (shift.data == nullptr) continue;
      for (index_t i = 0; i < rows.size; ++i)
        for (index_t j = 0; j < n; ++j) {
          T& entry = z[i * n + j];
          entry += shift(rows.begin + i, columns.begin + j);
          if (entry == minus_infinity) entry = masked;
        }
    }
    for (index_t e = 0; keep.data != nullptr && e < rows.size * n; ++e)
      if (!keep.data[e]) {
        raw[e] = 0;
        z[e] = masked;
      }
  }

  // Weights of a softmax block relative to its own sum, in w.scaled. `sums` holds the maximum m of the blocks before and the logarithm
  // of their sum of e^{z - m}, apart, since of large scores their sum would keep the maximum only; it takes those with this block.
  // w.pairs takes the share of the blocks before and the share of this one.
  void softmax_block(Range rows, index_t n, Workspace<T>& w, T* sums) const {
    const auto& kernel = kernels::active<T>();
    T* z = w.scaled.data();
    kernel.reduce[kernels::Reduction::max].rows(z, rows.size, n, n, w.top.data());
    kernel.softmax.softmax(z, rows.size, n, 1, z);
    // The largest weight is 1 / sum e^{z - top}.
    kernel.reduce[kernels::Reduction::max].rows(z, rows.size, n, n, w.logarithm.data());
    kernel.elementwise.unary[static_cast<std::size_t>(kernels::Unary::log)](w.logarithm.data(), w.logarithm.data(), rows.size);
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows.size); ++i) {
      const T before = sums[2 * i], top = w.top[i];
      const T both = before > top ? before : top;
      // What is left of a maximum of -inf is -inf, not a difference of infinities.
      const auto relative = [both](T maximum, T logarithm) { return maximum == minus_infinity ? maximum : (maximum - both) + logarithm; };
      w.pairs[2 * i] = relative(before, sums[2 * i + 1]);
      w.pairs[2 * i + 1] = relative(top, -w.logarithm[i]);
      sums[2 * i] = both;
    }
    kernel.softmax.logsumexp(w.pairs.data(), rows.size, 2, w.logarithm.data());
    kernel.softmax.softmax(w.pairs.data(), rows.size, 2, 1, w.pairs.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows.size); ++i) sums[2 * i + 1] = sums[2 * i] == minus_infinity ? T{0} : w.logarithm[i];
  }

  void sum_block(Range rows, index_t n, Workspace<T>& w, T* sums) const {
    kernels::active<T>().reduce[kernels::Reduction::sum].rows(w.scaled.data(), rows.size, n, n, w.top.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows.size); ++i) sums[2 * i] += w.top[i];
  }

  // The factor that dropout gives a weight.
  [[nodiscard]] T survival(index_t item, index_t i, index_t j) const {
    return random.uniform(static_cast<std::uint64_t>((item * queries + i) * keys + j)) >= dropout ? static_cast<T>(1 / (1 - dropout)) : T{0};
  }
  void drop(const Item& one, Range rows, Range columns, T* values) const {
    for (index_t i = 0; dropout > 0 && i < rows.size; ++i)
      for (index_t j = 0; j < columns.size; ++j) values[i * columns.size + j] *= survival(one.index, rows.begin + i, columns.begin + j);
  }

  // The weights of a block once the sums are known, in w.scaled, as they met the values; dL / d(beta score + masks) in w.upstream.
  // `grad` (., Dv), `sums` and `means` begin at the first row of the block; means = sum_j w_ij dL/dw_ij.
  void gradient_block(const Item& one, Range rows, Range columns, Workspace<T>& w, const Keep& keep, const T* grad, const T* sums, const T* means) const {
    scores(one, rows, columns, w, keep);
    product(rows.size, columns.size, dv, {grad, dv, 1}, one.v.from(columns.begin, 0).transposed(), w.upstream.data());
    drop(one, rows, columns, w.upstream.data());
    T* z = w.scaled.data();
    T* g = w.upstream.data();
    const index_t n = columns.size;
    if (softmax) {
      for (index_t i = 0; i < rows.size; ++i) {
        const T top = sums[2 * i] == minus_infinity ? T{0} : sums[2 * i], logarithm = sums[2 * i + 1];
        for (index_t j = 0; j < n; ++j) z[i * n + j] = (z[i * n + j] - top) - logarithm;
      }
      kernels::active<T>().elementwise.unary[static_cast<std::size_t>(kernels::Unary::exp)](z, z, rows.size * n);
      for (index_t i = 0; i < rows.size; ++i)
        for (index_t j = 0, e = i * n; j < n; ++j, ++e) g[e] = z[e] == 0 ? T{0} : z[e] * (g[e] - means[i]);
    } else {
      for (index_t i = 0; i < rows.size; ++i)
        for (index_t j = 0, e = i * n; j < n; ++j, ++e) {
          const T total = sums[2 * i];
          const bool reaches = total != 0 && !shifted_away(one, rows.begin + i, columns.begin + j);
          g[e] = reaches ? (g[e] - means[i]) / total : T{0};
          z[e] = total != 0 ? z[e] / total : T{0};
        }
    }
    for (index_t e = 0; keep.data != nullptr && e < rows.size * n; ++e)
      if (!keep.data[e]) z[e] = g[e] = 0;
    drop(one, rows, columns, z);
  }

  // The last key that any query of the block may see, plus one.
  [[nodiscard]] index_t keys_seen(Range rows) const { return causal ? std::min(keys, rows.begin + rows.size) : keys; }

  [[nodiscard]] Tensor with_side_by_side(const Tensor& points, const AttentionAttributes& a) const {
    const bool fine = a.score != Score::euclidean || points.strides().back() == 1 || points.shape().back() <= 1;
    return fine ? points : copy(points);
  }
  [[nodiscard]] Tensor expanded(const Tensor& t) const { return view::expand(t, with_matrix(batch, -1, -1)); }

  static void product(index_t m, index_t n, index_t k, const MatrixView<const T>& a, const MatrixView<const T>& b, T* c) {
    kernels::active<T>().gemm.gemm(
        {.m = m, .n = n, .k = k, .a = a.data, .a_row = a.row, .a_col = a.column, .b = b.data, .b_row = b.row, .b_col = b.column, .c = c, .c_row = n});
  }
  [[nodiscard]] static bool shifted_away(const Item& one, index_t i, index_t j) {
    return std::any_of(one.shift.begin(), one.shift.end(), [&](const auto& s) { return s.data != nullptr && s(i, j) == minus_infinity; });
  }
};

}  // namespace gradus::define
