#pragma once
// One block of queries against one block of keys: its scores, its weights and their gradients. For attention_blocks.cpp only.

#include <optional>

#include "engine/core/random.hpp"
#include "engine/ops/attention_blocks.hpp"
#include "engine/ops/define.hpp"
#include "engine/tensor/strided.hpp"

namespace gradus::define {

// A block of scores stays in the second-level cache, and a product of blocks is worth the call: with few keys (queries), more queries
// (keys) make up a block. Key blocks are whole panels of what is packed.
inline constexpr index_t query_block = 64, key_block = 128, most_queries = 512, most_keys = 512;
static_assert(key_block % kernels::packed_panel == 0 && most_keys % kernels::packed_panel == 0);
inline constexpr int most_masks = 2;

struct Range {
  index_t begin, size;
};
[[nodiscard]] inline Range block_of(index_t index, index_t block, index_t all) { return {index * block, std::min(block, all - index * block)}; }
[[nodiscard]] inline index_t blocks_in(index_t all, index_t block) { return all > 0 ? (all + block - 1) / block : 0; }

// A matrix as the second factor of products, packed once for all of them.
template <class T>
struct Packed {
  Scratch<T> elements;
  index_t rows = 0, columns = 0;

  void pack(const MatrixView<const T>& m, index_t m_rows, index_t m_columns) {
    rows = m_rows;
    columns = m_columns;
    const auto& gemm = kernels::active<T>().gemm;
    elements.resize(static_cast<std::size_t>(gemm.packed_elements(rows, columns)));
    gemm.pack(m.data, m.row, m.column, rows, columns, elements.data());
  }
};

// What products with one element of the batch read, packed: keys and values for forward, all for backward.
template <class T>
struct PackedItem {
  Packed<T> keys_across, values_across;       // (D, Tk), (Dv, Tk)
  Packed<T> queries, keys, values, upstream;  // (Tq, D), (Tk, D), (Tk, Dv), (Tq, Dv)
};

// One thread's working memory, for blocks of up to so many queries and keys.
template <class T>
struct Workspace {
  Workspace(index_t queries, index_t keys, bool masked, bool dropping)
      : raw(static_cast<std::size_t>(queries * keys)),
        weights(raw.size()),
        upstream(raw.size()),
        survival(dropping ? raw.size() : 0),
        top(static_cast<std::size_t>(queries)),
        total(top.size()),
        correction(top.size()),
        keep(masked ? raw.size() : 0) {}
  Scratch<T> raw;       // dot products or distances
  Scratch<T> weights;   // scores with temperature and masks where there are masks, then weights
  Scratch<T> upstream;  // dL/dweights, then dL/dscores
  Scratch<T> survival;  // factors of dropout
  Scratch<T> top, total, correction;
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
  index_t query_step, key_step;  // sizes of blocks
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
        query_step(step(query_block, most_queries, std::min(keys, key_block))),
        key_step(step(key_block, most_keys, std::min(queries, query_block))),
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

  // Whether any query may be kept from any key.
  [[nodiscard]] bool masked() const {
    return causal || std::any_of(masks.begin(), masks.end(), [](const Tensor& mask) { return mask.dtype() == DType::boolean; });
  }
  [[nodiscard]] Workspace<T> workspace() const { return {std::min(query_step, queries), std::min(key_step, keys), masked(), dropout > 0}; }

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

  // Dot products or distances of a block, in w.raw.
  void raw_scores(const Item& one, const PackedItem<T>& packed, Range rows, Range columns, Workspace<T>& w) const {
    const MatrixView<const T> x = one.q.from(rows.begin, 0);
    if (euclidean) {
      const T* c = packed.keys_across.elements.data() + columns.begin * d;
      kernels::active<T>().distance.distance_packed(
          {.n = rows.size, .k = columns.size, .d = d, .x = x.data, .x_row = x.row, .c = c, .out = w.raw.data(), .out_row = columns.size});
    } else {
      multiply(x, packed.keys_across, {0, d}, {columns.begin, columns.size}, {w.raw.data(), columns.size, 1}, rows.size);
    }
  }

  // Scores that are still to be multiplied by `scale` to be beta * score + masks.
  struct Scores {
    const T* data;
    T scale;
  };
  [[nodiscard]] bool shifted(const Item& one) const {
    return std::any_of(one.shift.begin(), one.shift.end(), [](const auto& shift) { return shift.data != nullptr; });
  }
  // The scores of a block: w.raw where nothing else enters, else w.weights; -inf or, for normalised linear weights, 0 where masked.
  Scores scores(const Item& one, const PackedItem<T>& packed, Range rows, Range columns, Workspace<T>& w, const Keep& keep) const {
    raw_scores(one, packed, rows, columns, w);
    T* raw = w.raw.data();
    if (softmax && keep.data == nullptr && !shifted(one)) return {raw, scale};
    T* z = w.weights.data();
    const index_t n = columns.size;
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
    return {z, 1};
  }

  // The factors that dropout gives the weights of a block; null without dropout.
  [[nodiscard]] const T* survivors(const Item& one, Range rows, Range columns, Workspace<T>& w) const {
    if (dropout == 0) return nullptr;
    const kernels::Survival<T> survival{random.seed(), random.stream_key(), survival_threshold(dropout), static_cast<T>(1 / (1 - dropout))};
    const auto first = static_cast<std::uint64_t>((one.index * queries + rows.begin) * keys + columns.begin);
    const bool whole = columns.size == keys;  // rows follow each other
    kernels::active<T>().attention.survival(survival, first, keys, whole ? 1 : rows.size, whole ? rows.size * keys : columns.size, w.survival.data());
    return w.survival.data();
  }

  // The weights of a block as they meet the values, in w.weights: of softmax relative to the maximum so far, in w.top, whose sum is in
  // w.total and what older outputs are to be multiplied by in w.correction; of normalised linear weights before division by w.total.
  void weigh_block(const Item& one, const PackedItem<T>& packed, Range rows, Range columns, Workspace<T>& w, const Keep& keep) const {
    const Scores z = scores(one, packed, rows, columns, w, keep);
    const T* survival = survivors(one, rows, columns, w);
    const index_t n = columns.size;
    if (softmax) {
      kernels::SoftmaxBlock<T> block{.rows = rows.size, .n = n, .scale = z.scale, .scores = z.data, .survival = survival, .weights = w.weights.data()};
      block.top = w.top.data();
      block.total = w.total.data();
      block.correction = w.correction.data();
      kernels::active<T>().attention.softmax_block(block);
    } else {
      kernels::active<T>().reduce[kernels::Reduction::sum].rows(w.weights.data(), rows.size, n, n, w.correction.data());
      for (std::size_t i = 0; i < static_cast<std::size_t>(rows.size); ++i) w.total[i] += w.correction[i];
      drop(survival, rows.size * n, w.weights.data());
    }
    zero_unkept(keep, rows.size * n, w.weights.data());
  }

  // The weights of a block once the sums are known, in w.weights, as they met the values; dL / d(raw score) in w.upstream.
  // `grad` (., Dv), `sums` and `means` begin at the first row of the block; means = sum_j w_ij dL/dw_ij.
  void gradient_block(const Item& one, const PackedItem<T>& packed, Range rows, Range columns, Workspace<T>& w, const Keep& keep, const T* grad, const T* sums,
                      const T* means) const {
    const Scores z = scores(one, packed, rows, columns, w, keep);
    const T* survival = survivors(one, rows, columns, w);
    const index_t n = columns.size;
    multiply({grad, dv, 1}, packed.values_across, {0, dv}, {columns.begin, n}, {w.upstream.data(), n, 1}, rows.size);
    if (softmax) {
      for (std::size_t i = 0; i < static_cast<std::size_t>(rows.size); ++i) {
        w.top[i] = sums[2 * i] == minus_infinity ? T{0} : sums[2 * i];
        w.total[i] = sums[2 * i + 1];
      }
      kernels::SoftmaxBlockBackward<T> block{.rows = rows.size, .n = n, .scale = z.scale, .slope = scale, .scores = z.data, .survival = survival};
      block.weights = w.weights.data();
      block.upstream = w.upstream.data();
      block.top = w.top.data();
      block.logarithm = w.total.data();
      block.mean = means;
      kernels::active<T>().attention.softmax_block_backward(block);
    } else {
      drop(survival, rows.size * n, w.upstream.data());
      linear_gradient(one, rows, columns, w, sums, means);
      drop(survival, rows.size * n, w.weights.data());
    }
    zero_unkept(keep, rows.size * n, w.weights.data());
    zero_unkept(keep, rows.size * n, w.upstream.data());
  }

  void linear_gradient(const Item& one, Range rows, Range columns, Workspace<T>& w, const T* sums, const T* means) const {
    const index_t n = columns.size;
    for (index_t i = 0; i < rows.size; ++i)
      for (index_t j = 0; j < n; ++j) {
        const T total = sums[2 * i];
        T &g = w.upstream[static_cast<std::size_t>(i * n + j)], &z = w.weights[static_cast<std::size_t>(i * n + j)];
        const bool reaches = total != 0 && !shifted_away(one, rows.begin + i, columns.begin + j);
        g = reaches ? scale * ((g - means[i]) / total) : T{0};
        z = total != 0 ? z / total : T{0};
      }
  }

  static void drop(const T* survival, index_t count, T* values) {
    for (index_t e = 0; survival != nullptr && e < count; ++e) values[e] = survival[e] == 0 ? T{0} : values[e] * survival[e];
  }
  static void zero_unkept(const Keep& keep, index_t count, T* values) {
    for (index_t e = 0; keep.data != nullptr && e < count; ++e)
      if (!keep.data[e]) values[e] = 0;
  }

  // The last key that any query of the block may see, plus one, rounded up to what packed matrices can be cut to.
  [[nodiscard]] index_t keys_seen(Range rows) const {
    constexpr index_t unit = kernels::packed_panel;
    return causal ? std::min(keys, (rows.begin + rows.size + unit - 1) / unit * unit) : keys;
  }

  [[nodiscard]] Tensor with_side_by_side(const Tensor& points, const AttentionAttributes& a) const {
    const bool fine = a.score != Score::euclidean || points.strides().back() == 1 || points.shape().back() <= 1;
    return fine ? points : copy(points);
  }
  [[nodiscard]] Tensor expanded(const Tensor& t) const { return view::expand(t, with_matrix(batch, -1, -1)); }

  // c = a b, or c += a b, with rows and columns of a packed b.
  static void multiply(const MatrixView<const T>& a, const Packed<T>& b, Range b_rows, Range b_columns, const MatrixView<T>& c, index_t m,
                       bool accumulate = false) {
    kernels::PackedGemmArgs<T> args{.m = m, .n = b_columns.size, .k = b_rows.size, .a = a.data, .a_row = a.row, .a_col = a.column};
    args.b = b.elements.data();
    args.b_rows = b.rows;
    args.b_row = b_rows.begin;
    args.b_col = b_columns.begin;
    args.c = c.data;
    args.c_row = c.row;
    args.accumulate = accumulate;
    kernels::active<T>().gemm.gemm_packed(args);
  }

 private:
  // With few of the others, a block has a multiple of `least`, up to `most`.
  static index_t step(index_t least, index_t most, index_t others) {
    constexpr index_t area = query_block * key_block;
    return std::clamp(area / std::max<index_t>(others, 1) / least * least, least, most);
  }
  [[nodiscard]] static bool shifted_away(const Item& one, index_t i, index_t j) {
    return std::any_of(one.shift.begin(), one.shift.end(), [&](const auto& s) { return s.data != nullptr && s(i, j) == minus_infinity; });
  }
};

}  // namespace gradus::define
