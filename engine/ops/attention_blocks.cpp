#include "engine/ops/attention_blocks.hpp"

#include "engine/core/events.hpp"
#include "engine/ops/attention_block.hpp"
#include "engine/ops/distance_gradient.hpp"

namespace gradus::define {
namespace {

constexpr index_t task_work = 1 << 18;  // multiplications that are worth a thread's while
constexpr index_t many_items = 16;      // from so many on, each item is one task

// Calls f(item, block of rows, packed item, workspace) for all items and blocks of one axis, in parallel. What one task writes no
// other does. Of many items each is one task, which packs it; of few, all are packed first and their blocks are tasks.
template <class T, class Pack, class F>
void for_blocks(const Blocks<T>& blocks, index_t all, index_t block, const Pack& pack, F&& f) {
  const bool many = blocks.items >= many_items;
  std::vector<PackedItem<T>, PoolAllocator<PackedItem<T>>> packed(static_cast<std::size_t>(many ? 0 : blocks.items));
  parallel_for(static_cast<index_t>(packed.size()), 1, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) pack(blocks.item(i), packed[static_cast<std::size_t>(i)]);
  });
  const index_t per_item = many ? 1 : blocks_in(all, block), work = 1 + blocks.queries * blocks.keys * (blocks.d + blocks.dv) / std::max<index_t>(per_item, 1);
  parallel_for(all > 0 ? blocks.items * per_item : 0, std::max<index_t>(1, task_work / work), [&](index_t begin, index_t end) {
    Workspace<T> w = blocks.workspace();
    PackedItem<T> own;
    for (index_t task = begin; task < end; ++task) {
      const auto one = blocks.item(task / per_item);
      if (many) pack(one, own);
      f(one, many ? Range{0, all} : block_of(task % per_item, block, all), many ? own : packed[static_cast<std::size_t>(task / per_item)], w);
    }
  });
}

// Calls f(block) for the blocks of a range that starts at one.
template <class F>
void each_block(Range range, index_t block, F&& f) {
  for (index_t i = range.begin; i < range.begin + range.size; i += block) f(Range{i, std::min(block, range.begin + range.size - i)});
}

// The output and the sums of one block of queries.
template <class T>
void forward_rows(const Blocks<T>& blocks, const typename Blocks<T>::Item& one, Range rows, const PackedItem<T>& packed, Workspace<T>& w, T* y, T* sums) {
  const index_t dv = blocks.dv;
  const auto& kernel = kernels::active<T>();
  std::fill_n(y, rows.size * dv, T{0});
  std::fill_n(w.top.begin(), rows.size, Blocks<T>::minus_infinity);
  std::fill_n(w.total.begin(), rows.size, T{0});
  each_block({0, blocks.keys_seen(rows)}, blocks.key_step, [&](Range columns) {
    Keep keep;
    if (!blocks.kept(one, rows, columns, w, keep)) return;
    blocks.weigh_block(one, packed, rows, columns, w, keep);
    if (blocks.softmax) kernel.attention.scale_rows(y, rows.size, dv, w.correction.data());
    const MatrixView<const T> weights{w.weights.data(), columns.size, 1};
    if (keep.data == nullptr) blocks.multiply(weights, packed.values, columns, {0, dv}, {y, dv, 1}, rows.size, true);
    else accumulate_product<T>(rows.size, dv, columns.size, weights, one.v.from(columns.begin, 0), keep, {y, dv, 1});
  });
  for (index_t i = 0; i < rows.size; ++i) {
    const T total = w.total[static_cast<std::size_t>(i)];
    if (total == 0 && !blocks.softmax && blocks.keys > 0) count_event(Event::zero_weight_row);
    for (index_t p = 0; p < dv; ++p) y[i * dv + p] = total == 0 ? T{0} : y[i * dv + p] / total;
    sums[2 * i] = blocks.softmax ? w.top[static_cast<std::size_t>(i)] : total;
    if (blocks.softmax && total == 0) w.total[static_cast<std::size_t>(i)] = 1;
  }
  if (blocks.softmax) kernel.elementwise.unary[static_cast<std::size_t>(kernels::Unary::log)](w.total.data(), w.total.data(), rows.size);
  for (index_t i = 0; i < rows.size; ++i) sums[2 * i + 1] = blocks.softmax ? w.total[static_cast<std::size_t>(i)] : T{0};
}

template <class T>
void run_forward(const Blocks<T>& blocks, T* out, T* sums) {
  const auto pack = [&](const auto& one, PackedItem<T>& packed) {
    packed.keys_across.pack(one.k.transposed(), blocks.d, blocks.keys);
    packed.values.pack(one.v, blocks.keys, blocks.dv);
  };
  for_blocks(blocks, blocks.queries, blocks.query_step, pack, [&](const auto& one, Range all, const PackedItem<T>& packed, Workspace<T>& w) {
    each_block(all, blocks.query_step, [&](Range rows) {
      const index_t first = one.index * blocks.queries + rows.begin;
      forward_rows(blocks, one, rows, packed, w, out + first * blocks.dv, sums + 2 * first);
    });
  });
}

// What a backward pass reads.
template <class T>
struct Saved {
  const T *out, *grad, *sums;
  T* means;  // sum_j w_ij dL/dw_ij = g_i . y_i
};
// Where it adds its gradients; null where they are not wanted. `by_row` takes those of the temperature, one number a query.
template <class T>
struct Targets {
  T *q, *by_row, *k, *v;
};
// Of distances, gradients of points x are 2 (x sum(g) - sum(g c)): targets first take sum(g c), these sum(g).
template <class T>
struct Slopes {
  T *q, *k;
};

// The gradients of queries and keys from those of raw scores in w.upstream.
template <class T>
void add_to_points(const Blocks<T>& blocks, const typename Blocks<T>::Item& one, Range rows, Range columns, const PackedItem<T>& packed, Workspace<T>& w,
                   const Keep& keep, const MatrixView<T>& to_q, const MatrixView<T>& to_k, const Slopes<T>& slopes) {
  const MatrixView<const T> g{w.upstream.data(), columns.size, 1}, q = one.q.from(rows.begin, 0), k = one.k.from(columns.begin, 0);
  const index_t d = blocks.d, m = rows.size, n = columns.size;
  const bool finite = keep.data == nullptr || (all_finite(q, m, d) && all_finite(k, n, d));
  if (blocks.euclidean && !finite) return accumulate_distance_gradient<T>(m, n, d, q, k, g, keep, to_q, to_k);
  if (blocks.euclidean) {
    if (to_q.data) kernels::active<T>().reduce[kernels::Reduction::sum].rows(g.data, m, n, n, w.correction.data());
    for (index_t i = 0; to_q.data && i < m; ++i) slopes.q[rows.begin + i] += w.correction[static_cast<std::size_t>(i)];
    if (to_k.data) kernels::active<T>().attention.add_columns(g.data, m, n, slopes.k + columns.begin);
  }
  if (to_q.data && finite) blocks.multiply(g, packed.keys, columns, {0, d}, to_q, m, true);
  else if (to_q.data) accumulate_product<T>(m, d, n, g, k, keep, to_q);
  if (to_k.data && finite) blocks.multiply(g.transposed(), packed.queries, rows, {0, d}, to_k, n, true);
  else if (to_k.data) accumulate_product<T>(n, d, m, g.transposed(), q, keep.transposed(), to_k);
}

template <class T>
void add_block(const Blocks<T>& blocks, const typename Blocks<T>::Item& one, Range rows, Range columns, const PackedItem<T>& packed, Workspace<T>& w,
               const Saved<T>& saved, const Targets<T>& to, const Slopes<T>& slopes) {
  Keep keep;
  if (columns.begin >= blocks.keys_seen(rows) || !blocks.kept(one, rows, columns, w, keep)) return;
  const index_t row = one.index * blocks.queries + rows.begin, column = one.index * blocks.keys + columns.begin, n = columns.size;
  const T* grad = saved.grad + row * blocks.dv;
  blocks.gradient_block(one, packed, rows, columns, w, keep, grad, saved.sums + 2 * row, saved.means + row);
  const T* g = w.upstream.data();
  if (to.by_row) {
    kernels::active<T>().attention.dot_rows(g, w.raw.data(), rows.size, n, w.correction.data());
    for (index_t i = 0; i < rows.size; ++i) to.by_row[row + i] += w.correction[static_cast<std::size_t>(i)];
  }
  if (to.v) {
    const MatrixView<const T> weights{w.weights.data(), 1, n};
    const MatrixView<T> to_v{to.v + column * blocks.dv, blocks.dv, 1};
    if (keep.data == nullptr) blocks.multiply(weights, packed.upstream, rows, {0, blocks.dv}, to_v, n, true);
    else accumulate_product<T>(n, blocks.dv, rows.size, weights, {grad, blocks.dv, 1}, keep.transposed(), to_v);
  }
  MatrixView<T> to_q, to_k;
  if (to.q) to_q = {to.q + row * blocks.d, blocks.d, 1};
  if (to.k) to_k = {to.k + column * blocks.d, blocks.d, 1};
  add_to_points(blocks, one, rows, columns, packed, w, keep, to_q, to_k, slopes);
}

// Of distances: the gradients of points [range) from sum(g c) and sum(g). Points that a mask hides from all are not multiplied by 0.
template <class T>
void finish_points(const Blocks<T>& blocks, const MatrixView<const T>& points, Range range, T* gradients, const T* slopes) {
  if (!blocks.euclidean) return;
  kernels::active<T>().attention.finish_distances(&points(range.begin, 0), points.row, slopes + range.begin, range.size, blocks.d, blocks.masked(),
                                                  gradients + range.begin * blocks.d);
}

// With many items each is one task, which computes every block once. With few, queries and keys are shared out in two passes that
// compute it twice. Every sum has the same order either way: a query's over the blocks of keys, a key's over those of queries.
//
// `near` has the same attention with its points moved near the origin, for products of gradients and points.
template <class T>
void run_backward(const Blocks<T>& blocks, const Blocks<T>& near, const Saved<T>& saved, const Targets<T>& to) {
  Scratch<T> q_slopes(static_cast<std::size_t>(blocks.euclidean ? blocks.items * blocks.queries : 0));
  Scratch<T> k_slopes(static_cast<std::size_t>(blocks.euclidean ? blocks.items * blocks.keys : 0));
  const auto pack = [&](const auto& one, PackedItem<T>& packed) {
    const MatrixView<const T> grad{saved.grad + one.index * blocks.queries * blocks.dv, blocks.dv, 1};
    packed.keys_across.pack(one.k.transposed(), blocks.d, blocks.keys);
    packed.values_across.pack(one.v.transposed(), blocks.dv, blocks.keys);
    const auto moved = near.item(one.index);
    if (to.q) packed.keys.pack(moved.k, blocks.keys, blocks.d);
    if (to.k) packed.queries.pack(moved.q, blocks.queries, blocks.d);
    if (to.v) packed.upstream.pack(grad, blocks.queries, blocks.dv);
  };
  const auto all_blocks = [&](const auto& one, Range rows, Range columns, const PackedItem<T>& packed, Workspace<T>& w, const Targets<T>& into) {
    const Slopes<T> slopes{q_slopes.data() + one.index * blocks.queries, k_slopes.data() + one.index * blocks.keys};
    each_block(rows, blocks.query_step, [&](Range some_rows) {
      each_block(columns, blocks.key_step, [&](Range some) { add_block(blocks, one, some_rows, some, packed, w, saved, into, slopes); });
    });
    const auto moved = near.item(one.index);
    if (into.q) finish_points(blocks, moved.q, rows, into.q + one.index * blocks.queries * blocks.d, slopes.q);
    if (into.k) finish_points(blocks, moved.k, columns, into.k + one.index * blocks.keys * blocks.d, slopes.k);
  };
  const auto find_means = [&](const auto& one, Range rows) {
    const index_t first = one.index * blocks.queries + rows.begin;
    kernels::active<T>().attention.dot_rows(saved.out + first * blocks.dv, saved.grad + first * blocks.dv, rows.size, blocks.dv, saved.means + first);
  };
  const Range all_queries{0, blocks.queries}, all_keys{0, blocks.keys};
  if (blocks.items >= many_items) {
    for_blocks(blocks, 1, 1, pack, [&](const auto& one, Range, const PackedItem<T>& packed, Workspace<T>& w) {
      find_means(one, all_queries);
      all_blocks(one, all_queries, all_keys, packed, w, to);
    });
    return;
  }
  for (index_t i = 0; i < blocks.items; ++i) find_means(blocks.item(i), all_queries);
  if (to.q || to.by_row)
    for_blocks(blocks, blocks.queries, blocks.query_step, pack, [&](const auto& one, Range rows, const PackedItem<T>& packed, Workspace<T>& w) {
      all_blocks(one, rows, all_keys, packed, w, {to.q, to.by_row, nullptr, nullptr});
    });
  if (to.k || to.v)
    for_blocks(blocks, blocks.keys, blocks.key_step, pack, [&](const auto& one, Range columns, const PackedItem<T>& packed, Workspace<T>& w) {
      all_blocks(one, all_queries, columns, packed, w, {nullptr, nullptr, to.k, to.v});
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
    std::optional<Blocks<T>> near;
    if (blocks.euclidean) {
      const MovedPoints points = moved_near_origin(in.q, in.k);
      AttentionInputs moved = in;
      moved.q = points.x;
      moved.k = points.c;
      near.emplace(moved, a);
    }
    const Tensor g = contiguous(grad);
    Scratch<T> means(static_cast<std::size_t>(blocks.items * blocks.queries));
    const Saved<T> saved{out.data<T>(), g.data<T>(), sums.data<T>(), means.data()};
    const auto zeroed = [](Tensor& t) {
      if (!t.defined()) return static_cast<T*>(nullptr);
      T* data = t.mutable_data<T>();
      std::fill_n(data, t.numel(), T{0});
      return data;
    };
    Tensor by_row = gradients.beta.defined() ? Tensor::empty({blocks.items * blocks.queries}, out.dtype()) : Tensor();
    run_backward<T>(blocks, near ? *near : blocks, saved, {zeroed(gradients.q), zeroed(by_row), zeroed(gradients.k), zeroed(gradients.v)});
    if (!by_row.defined()) return;
    compute::reduce(kernels::Reduction::sum, by_row, {0}, gradients.beta);
    *gradients.beta.mutable_data<T>() /= static_cast<T>(in.beta.item());
  });
}

}  // namespace gradus::define
