#include "engine/ops/bits.hpp"

#include <bit>

#include "engine/ops/define.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus {
namespace {

using define::Inputs;

static_assert(std::endian::native == std::endian::little, "bit i of a word is read from its byte i / 8");

constexpr index_t word_bits = 64, block = 4096;  // rows a task: their bits stay in the second-level cache

index_t words_of(index_t d) { return (d + word_bits - 1) / word_bits; }
index_t blocks_of(index_t rows) { return (rows + block - 1) / block; }
index_t table_size(index_t d, index_t heads) { return (d + 7) / 8 * 256 * heads; }

void require_bits(const Run& r) {
  define::require_dtype(r, 0, DType::i64);
  if (r.in(0).rank() != 2) throw ShapeError(r.name(), cat("the bits are ", r.in(0).shape()), "give (N, W) words");
}
void require_weights(const Run& r) {
  define::require_floating(r, 1);
  if (r.in(1).rank() != 2 || r.in(1).size(0) < 1 || words_of(r.in(1).size(1)) != r.in(0).size(1))
    throw ShapeError(r.name(), cat("the weights are ", r.in(1).shape(), ", the bits ", r.in(0).shape()),
                     "give (H, D) with H > 0 and D signs in as few words as hold them");
}

kernels::SignRows rows_of(const Tensor& bits, index_t d, index_t i) {
  const index_t bytes = bits.size(1) * static_cast<index_t>(sizeof(std::int64_t)), first = i * block;
  return {reinterpret_cast<const std::uint8_t*>(bits.data<std::int64_t>()) + first * bytes, bytes, std::min(block, bits.size(0) - first), d};
}

template <class T>
Tensor table_of(const Tensor& weights) {
  const Tensor w = contiguous(weights);
  Tensor table = Tensor::empty({table_size(w.size(1), w.size(0))}, dtype_of<T>());
  kernels::active<T>().signs.tabulate(w.data<T>(), w.size(1), w.size(0), table.mutable_data<T>());
  return table;
}

// sum_n x_ni g_nh: blocks of rows apart, merged in the fixed tree. f(block, rows, table) collects the block's g.
template <class T, class F>
void adjoint(const Tensor& bits, index_t heads, index_t d, Tensor& out, F&& collect) {
  const index_t blocks = blocks_of(bits.size(0));
  Tensor parts = Tensor::empty({blocks, heads, d}, dtype_of<T>());
  T* to = parts.mutable_data<T>();
  parallel_for(blocks, 1, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      Tensor table = Tensor::zeros({table_size(d, heads)}, dtype_of<T>());
      collect(i, rows_of(bits, d, i), table.mutable_data<T>());
      kernels::active<T>().signs.fold(table.data<T>(), d, heads, to + i * heads * d);
    }
  });
  compute::reduce(kernels::Reduction::sum, parts, {0}, out);
}

const OpDef signed_sums_op = {
    .name = "signed_sums",
    .family = "bits",
    .formula = R"(y_{nh} = \sum_i x_{ni} w_{hi},\ x \in \{-1, 1\})",
    .shapes = "i64 (N, W), (H, D) -> (N, H)",
    .law = "bits past D are not looked at; summed eight signs at a time",
    .shape =
        [](Run& r) {
          require_bits(r);
          require_weights(r);
          r.declare({r.in(0).size(0), r.in(1).size(0)}, r.in(1).dtype());
        },
    .forward =
        [](Run& r) {
          const Tensor bits = contiguous(r.in(0));
          visit_floating(r.out().dtype(), "signed_sums", [&](auto tag) {
            using T = decltype(tag);
            const index_t heads = r.in(1).size(0), d = r.in(1).size(1);
            const Tensor table = table_of<T>(r.in(1));
            T* y = r.out().mutable_data<T>();
            parallel_for(blocks_of(bits.size(0)), 1, [&](index_t begin, index_t end) {
              for (index_t i = begin; i < end; ++i) kernels::active<T>().signs.sums(rows_of(bits, d, i), table.data<T>(), heads, y + i * block * heads);
            });
          });
        },
    .vjp = [](Vjp& b) { b.to(1, signed_sums_adjoint(b.input(0), b.grad(), b.input_shape(1)[1])); },
    .saves = save::input(0),
    .cases =
        [] {
          const auto call = [](Inputs x) { return signed_sums(x[0], x[1]); };
          return std::vector<OpCase>{{"one head", {integer_values({3, 1}, {5, -2, 1000003}), normal_input({1, 37})}, call},
                                     {"two words, two heads", {integer_values({2, 2}, {-7, 12345, 99, -1}), normal_input({2, 70})}, call},
                                     {"three heads", {integer_values({4, 1}, {3, 6, 9, -12}), normal_input({3, 5})}, call},
                                     {"no rows", {integer_values({0, 1}, {}), normal_input({2, 5})}, call}};
        },
};

const OpDef signed_sums_adjoint_op = {
    .name = "signed_sums_adjoint",
    .family = "bits",
    .formula = R"(w_{hi} = \sum_n x_{ni} g_{nh},\ x \in \{-1, 1\})",
    .shapes = "i64 (N, W), (N, H) -> (H, D)",
    .law = "blocks of 4096 rows are summed apart and merged in the fixed tree",
    .shape =
        [](Run& r) {
          require_bits(r);
          define::require_floating(r, 1);
          const auto d = r.attr<index_t>();
          if (r.in(1).rank() != 2 || r.in(1).size(0) != r.in(0).size(0) || words_of(d) != r.in(0).size(1))
            throw ShapeError(r.name(), cat("g is ", r.in(1).shape(), ", the bits ", r.in(0).shape(), ", D ", d), "give (N, H) and D signs in W words");
          r.declare({r.in(1).size(1), d}, r.in(1).dtype());
        },
    .forward =
        [](Run& r) {
          const Tensor bits = contiguous(r.in(0)), g = contiguous(r.in(1));
          visit_floating(g.dtype(), "signed_sums_adjoint", [&](auto tag) {
            using T = decltype(tag);
            const index_t heads = g.size(1);
            adjoint<T>(bits, heads, r.attr<index_t>(), r.out(), [&](index_t i, const kernels::SignRows& rows, T* table) {
              kernels::active<T>().signs.collect(rows, g.data<T>() + i * block * heads, heads, table);
            });
          });
        },
    .vjp = [](Vjp& b) { b.to(1, signed_sums(b.input(0), b.grad())); },
    .saves = save::input(0),
    .cases =
        [] {
          return std::vector<OpCase>{
              {"one head", {integer_values({3, 1}, {5, -2, 1000003}), normal_input({3, 1})}, [](Inputs x) { return signed_sums_adjoint(x[0], x[1], 37); }},
              {"two words, two heads",
               {integer_values({2, 2}, {-7, 12345, 99, -1}), normal_input({2, 2})},
               [](Inputs x) { return signed_sums_adjoint(x[0], x[1], 70); }},
              {"no rows", {integer_values({0, 1}, {}), normal_input({0, 2})}, [](Inputs x) { return signed_sums_adjoint(x[0], x[1], 5); }}};
        },
};

// (-1)^(H+1).
double sign_of(index_t heads) { return heads % 2 == 0 ? -1 : 1; }

// Residuals f - y of a block, and 2 / N (f - y) df / ds into s itself.
template <class T>
double residuals(const T* target, index_t rows, index_t heads, double share, T* s) {
  double total = 0;
  for (index_t r = 0; r < rows; ++r, s += heads) {
    T f = static_cast<T>(sign_of(heads));
    for (index_t h = 0; h < heads; ++h) f *= s[h];
    const T residual = f - target[r];
    total += static_cast<double>(residual) * static_cast<double>(residual);
    const T factor = static_cast<T>(share * sign_of(heads)) * residual;
    // Products of the others from both ends: exact also where a sum is 0.
    T before{1};
    for (index_t h = 0; h < heads; ++h) {
      T others = before;
      for (index_t j = h + 1; j < heads; ++j) others *= s[j];
      before *= s[h];
      s[h] = factor * others;
    }
  }
  return total;
}

template <class T>
void loss_and_slope(Run& r) {
  const Tensor bits = contiguous(r.in(0)), target = contiguous(r.in(2)), table = table_of<T>(r.in(1));
  const index_t heads = r.in(1).size(0), d = r.in(1).size(1), rows = bits.size(0), blocks = blocks_of(rows);
  const T* y = target.data<T>();
  const auto& kernel = kernels::active<T>().signs;
  Tensor sums = Tensor::empty({std::min(rows, blocks * block), heads}, dtype_of<T>()), parts = Tensor::empty({blocks}, DType::f64);
  T* s = sums.mutable_data<T>();
  double* part = parts.mutable_data<double>();
  const double share = 2 / static_cast<double>(rows);
  adjoint<T>(bits, heads, d, r.out(1), [&](index_t i, const kernels::SignRows& x, T* histogram) {
    T* mine = s + i * block * heads;
    kernel.sums(x, table.data<T>(), heads, mine);
    part[i] = residuals(y + i * block, x.rows, heads, share, mine);
    kernel.collect(x, mine, heads, histogram);
  });
  Tensor total = Tensor::empty({}, DType::f64);
  compute::reduce(kernels::Reduction::sum, parts, {0}, total);
  r.out(0).mutable_data<T>()[0] = static_cast<T>(total.item() / static_cast<double>(rows));
}

Tensor product_of_others(const Tensor& s, index_t h) {
  Tensor others = Tensor::ones({s.size(0)}, s.dtype());
  for (index_t j = 0; j < s.size(1); ++j)
    if (j != h) others = others * select(s, 1, j);
  return others;
}

const OpDef parity_loss_op = {
    .name = "parity_loss",
    .family = "bits",
    .formula = R"(L = \frac1N \sum_n (f_n - y_n)^2,\ f_n = (-1)^{H+1} \prod_h \sum_i x_{ni} w_{hi})",
    .shapes = "i64 (N, W), (H, D), (N) -> ()",
    .law = "one pass over the bits gives the loss and its slope; the loss is accumulated in double; no rows are an error",
    .gradient_note = "of the weights; targets are data",
    .shape =
        [](Run& r) {
          require_bits(r);
          require_weights(r);
          define::require_same_dtype(r, 1, 2);
          if (r.in(2).shape() != Shape{r.in(0).size(0)} || r.in(0).size(0) == 0)
            throw ShapeError(r.name(), cat("the targets are ", r.in(2).shape(), ", the bits ", r.in(0).shape()), "give one target a row, and at least one row");
          r.declare({}, r.in(1).dtype());
          r.declare(r.in(1).shape(), r.in(1).dtype());
        },
    .forward = [](Run& r) { visit_floating(r.in(1).dtype(), "parity_loss", [&](auto tag) { loss_and_slope<decltype(tag)>(r); }); },
    .vjp =
        [](Vjp& b) {
          const Tensor s = signed_sums(b.input(0), b.input(1)), target = b.input(2);
          const index_t heads = s.size(1), rows = s.size(0);
          const Tensor residual = sign_of(heads) * (select(s, 1, 0) * product_of_others(s, 0)) - target;
          std::vector<Tensor> columns;
          for (index_t h = 0; h < heads; ++h) columns.push_back((2 * sign_of(heads) / static_cast<double>(rows)) * residual * product_of_others(s, h));
          if (b.needs(1)) b.to(1, b.grad() * signed_sums_adjoint(b.input(0), stack(columns, 1), b.input_shape(1)[1]));
          if (b.needs(2)) b.to(2, b.grad() * ((-2 / static_cast<double>(rows)) * residual));
        },
    .fused_vjp =
        [](Vjp& b) {
          if (b.needs(1)) b.to(1, b.grad() * b.output(1));
          if (b.needs(2)) {
            const Tensor f = sign_of(b.input_shape(1)[0]) * prod(signed_sums(b.input(0), b.input(1)), {.axes = {1}});
            b.to(2, b.grad() * ((-2 / static_cast<double>(f.size(0))) * (f - b.input(2))));
          }
        },
    .composite =
        [](Run& r) {
          const Tensor s = signed_sums(r.in(0), r.in(1));
          return mean(square(sign_of(s.size(1)) * prod(s, {.axes = {1}}) - r.in(2)));
        },
    .saves = save::inputs | save::output,
    .cases =
        [] {
          const auto call = [](Inputs x) { return parity_loss(x[0], x[1], x[2]); };
          const auto bits = integer_values({5, 1}, {5, -2, 1000003, 77, -4000});
          return std::vector<OpCase>{{"two heads", {bits, normal_input({2, 37}), normal_input({5})}, call},
                                     {"one head", {bits, normal_input({1, 11}), normal_input({5})}, call},
                                     {"three heads", {bits, normal_input({3, 11}), normal_input({5})}, call},
                                     {"no signs", {integer_values({4, 0}, {}), normal_input({2, 0}), normal_input({4})}, call}};
        },
};

}  // namespace

Tensor signed_sums(const Tensor& bits, const Tensor& weights) { return apply(signed_sums_op, {&bits, &weights}); }
Tensor signed_sums_adjoint(const Tensor& bits, const Tensor& g, index_t d) { return apply(signed_sums_adjoint_op, {&bits, &g}, d); }
Tensor parity_loss(const Tensor& bits, const Tensor& weights, const Tensor& target) { return apply(parity_loss_op, {&bits, &weights, &target}); }

std::span<const OpDef* const> bits_ops() {
  static const OpDef* const all[] = {&signed_sums_op, &signed_sums_adjoint_op, &parity_loss_op};
  return all;
}

}  // namespace gradus
