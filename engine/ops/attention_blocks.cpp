#include "engine/ops/attention_blocks.hpp"

#include "engine/core/events.hpp"
#include "engine/ops/attention_block.hpp"

namespace gradus::define {
namespace {

constexpr index_t task_work = 1 << 18;  // multiplications that are worth a thread's while

// Calls f(item, block of rows, workspace) for all items and blocks of one axis, in parallel. What one task writes no other does.
template <class T, class F>
void for_blocks(const Blocks<T>& blocks, index_t all, index_t block, F&& f) {
  const index_t per_item = blocks_in(all, block);
  const index_t work = 1 + blocks.queries * blocks.keys * (blocks.d + blocks.dv) / std::max<index_t>(per_item, 1);
  parallel_for(blocks.items * per_item, std::max<index_t>(1, task_work / work), [&](index_t begin, index_t end) {
    Workspace<T> w(std::min(query_block, blocks.queries), std::min(key_block, blocks.keys));
    for (index_t task = begin; task < end; ++task) f(blocks.item(task / per_item), block_of(task % per_item, block, all), w);
  });
}

template <class T>
void run_forward(const Blocks<T>& blocks, T* out, T* sums) {
  const index_t dv = blocks.dv;
  std::fill_n(out, blocks.items * blocks.queries * dv, T{0});
  for (index_t i = 0; i < blocks.items * blocks.queries; ++i) {
    sums[2 * i] = blocks.softmax ? Blocks<T>::minus_infinity : T{0};
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

// What a backward pass reads.
template <class T>
struct Saved {
  const T *grad, *sums, *means;
};
// Where it adds its gradients; null where they are not wanted. `by_row` takes those of the temperature, one number a query.
template <class T>
struct Targets {
  T *q, *by_row, *k, *v;
};

template <class T>
void add_block(const Blocks<T>& blocks, const typename Blocks<T>::Item& one, Range rows, Range columns, Workspace<T>& w, const Saved<T>& saved,
               const Targets<T>& to) {
  Keep keep;
  if (columns.begin >= blocks.keys_seen(rows) || !blocks.kept(one, rows, columns, w, keep)) return;
  const index_t row = one.index * blocks.queries + rows.begin, column = one.index * blocks.keys + columns.begin, n = columns.size;
  const T* grad = saved.grad + row * blocks.dv;
  blocks.gradient_block(one, rows, columns, w, keep, grad, saved.sums + 2 * row, saved.means + row);
  T* g = w.upstream.data();
  for (index_t i = 0; to.by_row && i < rows.size; ++i)
    for (index_t e = i * n; e < (i + 1) * n; ++e)
      if (g[e] != 0) to.by_row[row + i] += g[e] * (blocks.factor * w.raw[static_cast<std::size_t>(e)]);
  for (index_t e = 0; e < rows.size * n; ++e) g[e] *= blocks.scale;
  if (to.v)
    accumulate_product<T>(n, blocks.dv, rows.size, {w.scaled.data(), 1, n}, {grad, blocks.dv, 1}, keep.transposed(), {to.v + column * blocks.dv, blocks.dv, 1});
  const MatrixView<const T> q = one.q.from(rows.begin, 0), k = one.k.from(columns.begin, 0);
  MatrixView<T> to_q, to_k;
  if (to.q) to_q = {to.q + row * blocks.d, blocks.d, 1};
  if (to.k) to_k = {to.k + column * blocks.d, blocks.d, 1};
  if (blocks.euclidean) {
    if (to.q || to.k) accumulate_distance_gradient<T>(rows.size, n, blocks.d, q, k, g, keep, to_q, to_k, w.room);
    return;
  }
  if (to.q) accumulate_product<T>(rows.size, blocks.d, n, {g, n, 1}, k, keep, to_q);
  if (to.k) accumulate_product<T>(n, blocks.d, rows.size, {g, 1, n}, q, keep.transposed(), to_k);
}

// With many items each is one task, which computes every block once. With few, queries and keys are shared out in two passes that
// compute it twice. Every sum has the same order either way: a query's over the blocks of keys, a key's over those of queries.
template <class T>
void run_backward(const Blocks<T>& blocks, const Saved<T>& saved, const Targets<T>& to) {
  constexpr index_t many_items = 16;
  const auto over_keys = [&](const auto& one, Range rows, Workspace<T>& w, const Targets<T>& into) {
    for (index_t j = 0; j < blocks_in(blocks.keys, key_block); ++j) add_block(blocks, one, rows, block_of(j, key_block, blocks.keys), w, saved, into);
  };
  const auto over_queries = [&](const auto& one, Range columns, Workspace<T>& w, const Targets<T>& into) {
    for (index_t i = 0; i < blocks_in(blocks.queries, query_block); ++i)
      add_block(blocks, one, block_of(i, query_block, blocks.queries), columns, w, saved, into);
  };
  if (blocks.items >= many_items) {
    for_blocks(blocks, blocks.queries, blocks.queries, [&](const auto& one, Range all, Workspace<T>& w) {
      for (index_t i = 0; i < blocks_in(all.size, query_block); ++i) over_keys(one, block_of(i, query_block, all.size), w, to);
    });
    return;
  }
  if (to.q || to.by_row)
    for_blocks(blocks, blocks.queries, query_block, [&](const auto& one, Range rows, Workspace<T>& w) {
      over_keys(one, rows, w, {to.q, to.by_row, nullptr, nullptr});
    });
  if (to.k || to.v)
    for_blocks(blocks, blocks.keys, key_block, [&](const auto& one, Range columns, Workspace<T>& w) {
      over_queries(one, columns, w, {nullptr, nullptr, to.k, to.v});
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
    const auto zeroed = [](Tensor& t) {
      if (!t.defined()) return static_cast<T*>(nullptr);
      T* data = t.mutable_data<T>();
      std::fill_n(data, t.numel(), T{0});
      return data;
    };
    Tensor by_row = gradients.beta.defined() ? Tensor::empty({blocks.items * blocks.queries}, out.dtype()) : Tensor();
    run_backward<T>(blocks, saved, {zeroed(gradients.q), zeroed(by_row), zeroed(gradients.k), zeroed(gradients.v)});
    if (by_row.defined()) compute::reduce(kernels::Reduction::sum, by_row, {0}, gradients.beta);
  });
}

}  // namespace gradus::define
