#include "engine/kernels/gemm.hpp"

#include <algorithm>

#include "engine/kernels/gemm_micro.hpp"
#include "engine/kernels/loop.hpp"
#include "engine/kernels/merge.hpp"
#include "engine/kernels/pack.hpp"
#include "engine/kernels/scratch.hpp"

namespace gradus::kernels::GRADUS_KERNEL_ISA {
namespace {

// Blocks: a panel of B (block_k by one panel) stays in the first-level cache, a block of A (block_rows by block_k) in the second,
// and what is packed of B at once (block_k by slab_columns) in the third.
constexpr index_t block_k = 512, block_rows = 96, block_columns = 512, slab_columns = 4096;

// One product of a batch; columns of C may have a stride because A and B can change roles.
template <class T>
struct Product {
  index_t m, n, k;
  const T* a;
  index_t a_row, a_col;
  const T* b;
  index_t b_row, b_col;
  T* c;
  index_t c_row, c_col;
  bool accumulate;
  const T* bias = nullptr;  // of the columns of C, when not accumulating
};

// ---- packing ---------------------------------------------------------------------------------------------------------------

// to[p * count + x] = from[p * p_stride + x * x_stride]: a panel of A, whose rows are not padded to whole vectors.
template <class T>
void pack_rows(T* to, const T* from, index_t p_stride, index_t x_stride, index_t k, index_t count) {
  if (x_stride == 1) {
    for (index_t p = 0; p < k; ++p)
      for (index_t x = 0; x < count; ++x) to[p * count + x] = from[p * p_stride + x];
    return;
  }
  for (index_t p = 0; p < k; ++p)
    for (index_t x = 0; x < count; ++x) to[p * count + x] = from[p * p_stride + x * x_stride];
}

// B as panels of panel_width columns. Full panels are read in place or packed; the last one is packed unless whole vectors fit.
template <class T>
struct Panels {
  const T* full;
  index_t full_panel, full_row;  // from panel to panel, from row to row
  const T* last;
  index_t last_row;
};

template <class T>
struct PanelPlan {
  index_t full, last_width, last_padded;  // number of full panels; columns of the last one
  bool pack_full, pack_last;

  explicit PanelPlan(const Product<T>& p) {
    constexpr index_t cached = 256 << 10;
    full = p.n / panel_width<T>;
    last_width = p.n % panel_width<T>;
    last_padded = round_up(last_width, width<T>);
    const bool used_little = p.m <= 8 * panel_rows || p.k * p.n * static_cast<index_t>(sizeof(T)) <= cached || p.b_row <= 2 * panel_width<T>;
    pack_full = p.b_col != 1 || !used_little;
    pack_last = pack_full || last_padded != last_width;
  }
  [[nodiscard]] index_t packed_full(index_t k) const { return pack_full ? full * panel_width<T> * k : 0; }
  [[nodiscard]] index_t packed_elements(index_t k) const { return packed_full(k) + (pack_last ? last_padded * k : 0); }
};

template <class T>
Panels<T> pack_b(const Product<T>& p, const PanelPlan<T>& plan, T* room, bool threads) {
  const Panels<T> panels{plan.pack_full ? room : p.b, panel_width<T> * (plan.pack_full ? p.k : 1), plan.pack_full ? panel_width<T> : p.b_row,
                         plan.pack_last ? room + plan.packed_full(p.k) : p.b + plan.full * panel_width<T>, plan.pack_last ? plan.last_padded : p.b_row};
  const index_t first = plan.pack_full ? 0 : plan.full, count = plan.full - first + (plan.pack_last && plan.last_width > 0);
  const auto pack = [&](index_t i, index_t p0, index_t p1) {
    const bool whole = first + i < plan.full;
    const index_t columns = whole ? panel_width<T> : plan.last_width, padded = whole ? panel_width<T> : plan.last_padded;
    T* to = room + i * panel_width<T> * p.k + p0 * padded;
    pack_panel<T>(to, padded, p.b + (first + i) * panel_width<T> * p.b_col + p0 * p.b_row, p.b_row, p.b_col, p1 - p0, columns);
  };
  // Along the rows of B in memory: a few rows of all panels, or all rows of one panel.
  const index_t strip = p.b_col == 1 ? 64 : std::max<index_t>(p.k, 1), strips = ceil_div(p.k, strip), steps = p.b_col == 1 ? strips : count;
  const index_t grain = threads ? grain_for(8 * p.k * count * panel_width<T> / std::max<index_t>(steps, 1)) : steps;
  if (count > 0)
    parallel_chunks(steps, grain, [&](index_t begin, index_t end) {
      for (index_t step = begin; step < end; ++step)
        if (p.b_col == 1)
          for (index_t i = 0; i < count; ++i) pack(i, step * strip, std::min(p.k, (step + 1) * strip));
        else pack(step, 0, p.k);
    });
  return panels;
}

// ---- blocking --------------------------------------------------------------------------------------------------------------

// A rectangle of C and its rows of A: in place, or packed in panels of panel_rows rows.
template <class T>
struct Block {
  index_t i0, i1, j0, j1;
  const T* a;
};

// C with strided columns goes through a contiguous copy of the tile.
template <class T, int vectors, bool packed>
void tile(const Product<T>& p, Tile<T> t, index_t rows) {
  if (p.c_col == 1) return run_tile<T, vectors, packed>(t, rows);
  constexpr index_t row = vectors * width<T>;
  alignas(64) T copy[tile_rows<vectors> * row] = {};
  const index_t columns = row - width<T> + t.last;
  T* c = t.c;
  if (t.load)
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < columns; ++j) copy[i * row + j] = c[i * p.c_row + j * p.c_col];
  t.c = copy;
  t.c_row = row;
  t.last = width<T>;
  run_tile<T, vectors, packed>(t, rows);
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < columns; ++j) c[i * p.c_row + j * p.c_col] = copy[i * row + j];
}

// All rows of a block against one panel of B.
template <class T, int vectors, bool packed>
void column_of_tiles(const Product<T>& p, const Block<T>& block, const T* b, index_t b_row, index_t j, index_t last) {
  constexpr index_t step = packed ? panel_rows : tile_rows<vectors>;
  for (index_t i = block.i0; i < block.i1; i += step) {
    const T* a = block.a + (i - block.i0) * (packed ? p.k : p.a_row);
    const T* bias = p.bias != nullptr ? p.bias + j : nullptr;
    const Tile<T> t{p.k, a, p.a_row, p.a_col, b, b_row, p.c + i * p.c_row + j * p.c_col, p.c_row, last, p.accumulate, bias};
    tile<T, vectors, packed>(p, t, std::min(step, block.i1 - i));
  }
}

template <class T, bool packed>
void multiply_block(const Product<T>& p, const Panels<T>& panels, const Block<T>& block) {
  for (index_t j = block.j0; j < block.j1; j += panel_width<T>) {
    const index_t columns = p.n - j;
    if (columns >= panel_width<T>)
      column_of_tiles<T, panel_vectors, packed>(p, block, panels.full + j / panel_width<T> * panels.full_panel, panels.full_row, j, width<T>);
    else if (columns > width<T>) column_of_tiles<T, panel_vectors, packed>(p, block, panels.last, panels.last_row, j, columns - width<T>);
    else column_of_tiles<T, 1, packed>(p, block, panels.last, panels.last_row, j, columns);
  }
}

// Rectangles of C that threads share out. Large ones use what they load more often; smaller ones occupy more threads.
template <class T>
struct Tasks {
  static constexpr index_t least_rows = block_rows / 2, least_columns = block_columns / 2;
  index_t rows, columns, row_tasks, count, grain;

  Tasks(const Product<T>& p, bool threads) {
    const index_t work = p.m * p.n * std::max<index_t>(p.k, 1), wanted = threads ? std::clamp<index_t>(work / task_work, 1, 32) : 1;
    rows = std::clamp(round_up(ceil_div(p.m, wanted), panel_rows), least_rows, block_rows);
    row_tasks = ceil_div(p.m, rows);
    columns = std::clamp(round_up(ceil_div(p.n * row_tasks, wanted), panel_width<T>), least_columns, block_columns);
    count = row_tasks * ceil_div(p.n, columns);
    grain = threads ? std::max<index_t>(1, count * task_work / work) : count;
  }
};

template <class T>
void multiply_rectangle(const Product<T>& p, const Panels<T>& panels, Block<T> block, bool pack_a, T* room) {
  block.a = p.a + block.i0 * p.a_row;
  if (!pack_a) return multiply_block<T, false>(p, panels, block);
  for (index_t i = block.i0; i < block.i1; i += panel_rows) {
    const index_t rows = std::min<index_t>(panel_rows, block.i1 - i);
    pack_rows(room + (i - block.i0) * p.k, p.a + i * p.a_row, p.a_col, p.a_row, p.k, rows);
  }
  block.a = room;
  multiply_block<T, true>(p, panels, block);
}

// k is at most block_k and n at most slab_columns.
template <class T>
void multiply_slab(const Product<T>& p, bool threads) {
  const PanelPlan<T> plan(p);
  Scratch<T> packed(plan.packed_elements(p.k));
  const Panels<T> panels = pack_b(p, plan, packed.data(), threads);
  const Tasks<T> tasks(p, threads);
  // Rows of A that are contiguous are read as fast in place, unless they lie so far apart that they meet in one set of the first-level
  // cache; others are packed when that pays.
  const bool collide = p.a_row * static_cast<index_t>(sizeof(T)) % 4096 == 0 && p.m > panel_rows;
  const bool pack_a = (p.a_col != 1 || collide) && p.n > 8 * panel_width<T>;
  parallel_chunks(tasks.count, tasks.grain, [&](index_t begin, index_t end) {
    Scratch<T> room(pack_a ? tasks.rows * p.k : 0);
    for (index_t task = begin; task < end; ++task) {
      const index_t i = task % tasks.row_tasks * tasks.rows, j = task / tasks.row_tasks * tasks.columns;
      multiply_rectangle(p, panels, {i, std::min(p.m, i + tasks.rows), j, std::min(p.n, j + tasks.columns), nullptr}, pack_a, room.data());
    }
  });
}

// One that is not worth sharing out is one rectangle.
template <class T>
void multiply_small(const Product<T>& p) {
  const PanelPlan<T> plan(p);
  Scratch<T> packed(plan.packed_elements(p.k));
  const Panels<T> panels = pack_b(p, plan, packed.data(), false);
  multiply_block<T, false>(p, panels, {0, p.m, 0, p.n, p.a});
}

// With few rows and a transposed B, C^T = B^T A^T reads B in place.
template <class T>
Product<T> oriented(const Product<T>& p) {
  const bool swap = p.m <= 4 && p.b_col != 1 && p.n > p.m && p.bias == nullptr;
  return swap ? Product<T>{p.n, p.m, p.k, p.b, p.b_col, p.b_row, p.a, p.a_col, p.a_row, p.c, p.c_col, p.c_row, p.accumulate} : p;
}

// Each block of k continues from the C stored by the block before, so that blocking changes no bit.
template <class T>
void multiply(const Product<T>& product, bool threads) {
  const Product<T> whole = oriented(product);
  constexpr index_t small = index_t{1} << 18;
  if (whole.k <= block_k && whole.m * whole.n * whole.k <= small) return multiply_small(whole);
  for (index_t j = 0; j < whole.n; j += slab_columns) {
    index_t p0 = 0;
    do {
      Product<T> slab = whole;
      slab.n = std::min(slab_columns, whole.n - j);
      slab.k = std::min(block_k, whole.k - p0);
      slab.a += p0 * whole.a_col;
      slab.b += p0 * whole.b_row + j * whole.b_col;
      slab.c += j * whole.c_col;
      slab.accumulate = whole.accumulate || p0 > 0;
      if (whole.bias != nullptr) slab.bias += j;
      multiply_slab(slab, threads);
      p0 += block_k;
    } while (p0 < whole.k);
  }
}

// ---- batches and parts of k ----------------------------------------------------------------------------------------------

// The products to do: every matrix of the batch, times every part of k when k is split, whose sums go to `sums`.
template <class T>
struct Products {
  const GemmArgs<T>& args;
  index_t length, parts;
  T* sums;

  [[nodiscard]] Product<T> operator[](index_t index) const {
    const index_t item = index / parts, p0 = index % parts * length;
    Product<T> p{args.m,
                 args.n,
                 std::min(length, args.k - p0),
                 args.a + item * args.a_batch + p0 * args.a_col,
                 args.a_row,
                 args.a_col,
                 args.b + item * args.b_batch + p0 * args.b_row,
                 args.b_row,
                 args.b_col,
                 args.c + item * args.c_batch,
                 args.c_row,
                 1,
                 args.accumulate,
                 parts > 1 ? nullptr : args.bias};
    if (parts > 1) {
      p.c = sums + index * args.m * args.n;
      p.c_row = args.n;
      p.accumulate = false;
    }
    return p;
  }
};

// Merges the parts of each product and writes or adds the sum to C.
template <class T>
void merge_products(const Products<T>& products) {
  const GemmArgs<T>& args = products.args;
  const index_t size = args.m * args.n;
  parallel_chunks(args.batch, 1, [&](index_t begin, index_t end) {
    for (index_t item = begin; item < end; ++item) {
      T* sum = products.sums + item * products.parts * size;
      merge_parts(sum, products.parts, size);
      T* c = args.c + item * args.c_batch;
      for (index_t i = 0; i < args.m; ++i, c += args.c_row, sum += args.n)
        for (index_t j = 0; j < args.n; ++j) c[j] = args.accumulate ? c[j] + sum[j] : args.bias != nullptr ? args.bias[j] + sum[j] : sum[j];
    }
  });
}

template <class T>
void gemm(const GemmArgs<T>& args) {
  if (args.m <= 0 || args.n <= 0 || args.batch <= 0) return;
  const index_t length = split_length(args.m, args.n, args.k), parts = args.k > length ? ceil_div(args.k, length) : 1;
  Scratch<T> sums(parts > 1 ? args.batch * parts * args.m * args.n : 0);
  const Products<T> products{args, length, parts, sums.data()};
  for_batch(args.batch * parts, args.m * args.n * std::max<index_t>(length, 1), [&](index_t i, bool threads) { multiply(products[i], threads); });
  if (parts > 1) merge_products(products);
}

// ---- a B that is packed once -----------------------------------------------------------------------------------------------

template <class T>
index_t packed_elements(index_t k, index_t n) {
  return k * round_up(n, width<T>);
}

template <class T>
void pack(const T* b, index_t b_row, index_t b_col, index_t k, index_t n, T* to) {
  for (index_t j = 0; j < n; j += panel_width<T>) {
    const index_t columns = std::min(panel_width<T>, n - j);
    pack_panel<T>(to + j * k, round_up(columns, width<T>), b + j * b_col, b_row, b_col, k, columns);
  }
}

template <class T>
void gemm_packed(const PackedGemmArgs<T>& args) {
  if (args.m <= 0 || args.n <= 0) return;
  const index_t whole = args.n - args.n % panel_width<T>, last = round_up(args.n % panel_width<T>, width<T>);
  const T* part = args.b + args.b_col * args.b_rows;
  const Panels<T> panels{part + args.b_row * panel_width<T>, panel_width<T> * args.b_rows, panel_width<T>, part + whole * args.b_rows + args.b_row * last,
                         last};
  const Product<T> product{args.m, args.n, args.k, args.a, args.a_row, args.a_col, nullptr, 0, 0, args.c, args.c_row, 1, args.accumulate};
  multiply_block<T, false>(product, panels, {0, args.m, 0, args.n, args.a});
}

template <class T>
constexpr GemmKernels<T> table() {
  static_assert(packed_panel % panel_width<T> == 0);
  return {gemm<T>, packed_elements<T>, pack<T>, gemm_packed<T>};
}

}  // namespace

extern const GemmKernels<float> gemm_f32;
extern const GemmKernels<double> gemm_f64;
const GemmKernels<float> gemm_f32 = table<float>();
const GemmKernels<double> gemm_f64 = table<double>();

}  // namespace gradus::kernels::GRADUS_KERNEL_ISA
