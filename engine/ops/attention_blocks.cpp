#include "engine/ops/attention_blocks.hpp"

#include "engine/core/events.hpp"
#include "engine/core/random.hpp"
#include "engine/ops/define.hpp"
#include "engine/tensor/strided.hpp"

namespace gradus::define {
namespace {

// A block of scores stays in the second-level cache, and a product of blocks is worth the call.
constexpr index_t query_block = 64, key_block = 128;
constexpr index_t task_work = 1 << 18;  // multiplications that are worth a thread's while
constexpr int most_masks = 2;

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Range {
  index_t begin, size;
};
Range block_of(index_t index, index_t block, index_t all) { return {index * block, std::min(block, all - index * block)}; }
index_t blocks_in(index_t all, index_t block) { return (all + block - 1) / block; }

// One thread's working memory.
template <class T>
struct Workspace {
  Scratch<T> raw = block(), scaled = block(), upstream = block();  // dot products or distances; then scaled scores, then weights; dL/dweights, then dL/dscores
  Scratch<T> top = column(), logarithm = column(), pairs = Scratch<T>(2 * query_block), room;
  Scratch<std::uint8_t> keep = Scratch<std::uint8_t>(query_block * key_block);

 private:
  static Scratch<T> block() { return Scratch<T>(query_block * key_block); }
  static Scratch<T> column() { return Scratch<T>(query_block); }
};

template <class T>
struct Blocks {
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
    const T masked = softmax ? static_cast<T>(-infinity) : T{0};
    for (const MatrixView<const T>& shift : one.shift) {
      if (shift.data == nullptr) continue;
      for (index_t i = 0; i < rows.size; ++i)
        for (index_t j = 0; j < n; ++j) {
          T& entry = z[i * n + j];
          entry += shift(rows.begin + i, columns.begin + j);
          if (entry == static_cast<T>(-infinity)) entry = masked;
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
      const auto relative = [both](T maximum, T logarithm) { return maximum == static_cast<T>(-infinity) ? maximum : (maximum - both) + logarithm; };
      w.pairs[2 * i] = relative(before, sums[2 * i + 1]);
      w.pairs[2 * i + 1] = relative(top, -w.logarithm[i]);
      sums[2 * i] = both;
    }
    kernel.softmax.logsumexp(w.pairs.data(), rows.size, 2, w.logarithm.data());
    kernel.softmax.softmax(w.pairs.data(), rows.size, 2, 1, w.pairs.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows.size); ++i) sums[2 * i + 1] = sums[2 * i] == static_cast<T>(-infinity) ? T{0} : w.logarithm[i];
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
        const T top = sums[2 * i] == static_cast<T>(-infinity) ? T{0} : sums[2 * i], logarithm = sums[2 * i + 1];
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
    return std::any_of(one.shift.begin(), one.shift.end(), [&](const auto& s) { return s.data != nullptr && s(i, j) == static_cast<T>(-infinity); });
  }
};

// Calls f(item, block of rows, workspace) for all items and blocks of one axis, in parallel. What one task writes no other does.
template <class T, class F>
void for_blocks(const Blocks<T>& blocks, index_t all, index_t block, F&& f) {
  const index_t per_item = blocks_in(all, block);
  const index_t work = 1 + blocks.queries * blocks.keys * (blocks.d + blocks.dv) / std::max<index_t>(per_item, 1);
  parallel_for(blocks.items * per_item, std::max<index_t>(1, task_work / work), [&](index_t begin, index_t end) {
    Workspace<T> w;
    for (index_t task = begin; task < end; ++task) f(blocks.item(task / per_item), block_of(task % per_item, block, all), w);
  });
}

template <class T>
void run_forward(const Blocks<T>& blocks, T* out, T* sums) {
  const index_t dv = blocks.dv;
  std::fill_n(out, blocks.items * blocks.queries * dv, T{0});
  for (index_t i = 0; i < blocks.items * blocks.queries; ++i) {
    sums[2 * i] = blocks.softmax ? static_cast<T>(-infinity) : T{0};
    sums[2 * i + 1] = 0;
  }
  for_blocks(blocks, blocks.queries, query_block, [&](const auto& one, Range rows, Workspace<T>& w) {
    const index_t first = one.index * blocks.queries + rows.begin;
    T* y = out + first * dv;
    for (index_t j = 0; j * key_block < blocks.keys_seen(rows); ++j) {
      const Range columns = block_of(j, key_block, blocks.keys_seen(rows));
      Keep keep;
      if (!blocks.kept(one, rows, columns, w, keep)) continue;
      blocks.scores(one, rows, columns, w, keep);
      T* z = w.scaled.data();
      const index_t n = columns.size;
      if (blocks.softmax) {
        blocks.softmax_block(rows, n, w, sums + 2 * first);
        for (index_t i = 0; i < rows.size; ++i) {
          const T before = w.pairs[static_cast<std::size_t>(2 * i)], now = w.pairs[static_cast<std::size_t>(2 * i + 1)];
          for (index_t p = 0; p < dv; ++p) y[i * dv + p] *= before;
          for (index_t e = i * n; e < (i + 1) * n; ++e) z[e] = keep.data != nullptr && !keep.data[e] ? T{0} : z[e] * now;
        }
      } else {
        blocks.sum_block(rows, n, w, sums + 2 * first);
      }
      blocks.drop(one, rows, columns, z);
      accumulate_product<T>(rows.size, dv, n, {z, n, 1}, one.v.from(columns.begin, 0), keep, {y, dv, 1});
    }
    if (blocks.softmax || blocks.keys == 0) return;
    for (index_t i = 0; i < rows.size; ++i) {
      const T total = sums[2 * (first + i)];
      if (total == 0) count_event(Event::zero_weight_row);
      for (index_t p = 0; p < dv; ++p) y[i * dv + p] = total == 0 ? T{0} : y[i * dv + p] / total;
    }
  });
}

// sum_j w_ij dL/dw_ij = g_i . y_i
template <class T>
Scratch<T> weighted_means(const Blocks<T>& blocks, const T* out, const T* grad) {
  Scratch<T> means(static_cast<std::size_t>(blocks.items * blocks.queries));
  for (std::size_t i = 0; i < means.size(); ++i) {
    T sum = 0;
    for (index_t p = 0; p < blocks.dv; ++p, ++out, ++grad) sum += *out * *grad;
    means[i] = sum;
  }
  return means;
}

// What the gradients of one pass read.
template <class T>
struct Saved {
  const T *grad, *sums, *means;
};

template <class T>
void backward_to_queries(const Blocks<T>& blocks, const Saved<T>& saved, T* gq, T* by_row) {
  for_blocks(blocks, blocks.queries, query_block, [&](const auto& one, Range rows, Workspace<T>& w) {
    const index_t first = one.index * blocks.queries + rows.begin;
    const MatrixView<T> to{gq + first * blocks.d, blocks.d, 1};
    std::fill_n(to.data, rows.size * blocks.d, T{0});
    std::fill_n(by_row + first, rows.size, T{0});
    for (index_t j = 0; j * key_block < blocks.keys_seen(rows); ++j) {
      const Range columns = block_of(j, key_block, blocks.keys_seen(rows));
      const index_t n = columns.size;
      Keep keep;
      if (!blocks.kept(one, rows, columns, w, keep)) continue;
      blocks.gradient_block(one, rows, columns, w, keep, saved.grad + first * blocks.dv, saved.sums + 2 * first, saved.means + first);
      T* g = w.upstream.data();
      for (index_t i = 0; i < rows.size; ++i)
        for (index_t e = i * n; e < (i + 1) * n; ++e) {
          if (g[e] != 0) by_row[first + i] += g[e] * (blocks.factor * w.raw[static_cast<std::size_t>(e)]);
          g[e] *= blocks.scale;
        }
      const MatrixView<const T> q = one.q.from(rows.begin, 0), k = one.k.from(columns.begin, 0);
      if (blocks.euclidean) accumulate_distance_gradient<T>(rows.size, n, blocks.d, q, k, g, keep, to, {}, w.room);
      else accumulate_product<T>(rows.size, blocks.d, n, {g, n, 1}, k, keep, to);
    }
  });
}

template <class T>
void backward_to_keys_and_values(const Blocks<T>& blocks, const Saved<T>& saved, T* gk, T* gv) {
  for_blocks(blocks, blocks.keys, key_block, [&](const auto& one, Range columns, Workspace<T>& w) {
    const index_t first = one.index * blocks.keys + columns.begin, n = columns.size;
    const MatrixView<T> to_k{gk + first * blocks.d, blocks.d, 1}, to_v{gv + first * blocks.dv, blocks.dv, 1};
    std::fill_n(to_k.data, n * blocks.d, T{0});
    std::fill_n(to_v.data, n * blocks.dv, T{0});
    for (index_t i = 0; i < blocks_in(blocks.queries, query_block); ++i) {
      const Range rows = block_of(i, query_block, blocks.queries);
      const index_t row = one.index * blocks.queries + rows.begin;
      Keep keep;
      if (columns.begin >= blocks.keys_seen(rows) || !blocks.kept(one, rows, columns, w, keep)) continue;
      const T* grad = saved.grad + row * blocks.dv;
      blocks.gradient_block(one, rows, columns, w, keep, grad, saved.sums + 2 * row, saved.means + row);
      T* g = w.upstream.data();
      for (index_t e = 0; e < rows.size * n; ++e) g[e] *= blocks.scale;
      const MatrixView<const T> q = one.q.from(rows.begin, 0), weights{w.scaled.data(), 1, n}, slopes{g, 1, n};
      const Keep by_key = keep.transposed();
      accumulate_product<T>(n, blocks.dv, rows.size, weights, {grad, blocks.dv, 1}, by_key, to_v);
      if (blocks.euclidean) accumulate_distance_gradient<T>(rows.size, n, blocks.d, q, one.k.from(columns.begin, 0), g, keep, {}, to_k, w.room);
      else accumulate_product<T>(n, blocks.d, rows.size, slopes, q, by_key, to_k);
    }
  });
}

}  // namespace

Shape AttentionInputs::batch() const {
  return broadcast_shapes(broadcast_shapes(batch_of(q.shape()), batch_of(k.shape()), "attention"), batch_of(v.shape()), "attention");
}

double score_factor(Score score, index_t d) {
  if (score == Score::dot) return 1;
  return score == Score::euclidean ? -1 : 1 / std::sqrt(static_cast<double>(std::max<index_t>(d, 1)));
}

void attention_forward(const AttentionInputs& in, const AttentionAttributes& a, Tensor& out, Tensor& sums) {
  const FlushDenormals flush;
  visit_floating(out.dtype(), "attention", [&](auto tag) {
    using T = decltype(tag);
    run_forward<T>(Blocks<T>(in, a), out.mutable_data<T>(), sums.mutable_data<T>());
  });
}

void attention_backward(const AttentionInputs& in, const AttentionAttributes& a, const Tensor& out, const Tensor& sums, const Tensor& grad,
                        AttentionGradients& gradients) {
  const FlushDenormals flush;
  visit_floating(out.dtype(), "attention", [&](auto tag) {
    using T = decltype(tag);
    const Blocks<T> blocks(in, a);
    const Tensor g = contiguous(grad);
    const Scratch<T> means = weighted_means<T>(blocks, out.data<T>(), g.data<T>());
    const Saved<T> saved{g.data<T>(), sums.data<T>(), means.data()};
    if (gradients.q.defined()) {
      Tensor by_row = Tensor::empty({blocks.items * blocks.queries}, out.dtype());
      backward_to_queries<T>(blocks, saved, gradients.q.mutable_data<T>(), by_row.mutable_data<T>());
      if (gradients.beta.defined()) compute::reduce(kernels::Reduction::sum, by_row, {0}, gradients.beta);
    }
    if (gradients.k.defined()) backward_to_keys_and_values<T>(blocks, saved, gradients.k.mutable_data<T>(), gradients.v.mutable_data<T>());
  });
}

}  // namespace gradus::define
