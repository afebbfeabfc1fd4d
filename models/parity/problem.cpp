#include "models/parity/problem.hpp"

#include <algorithm>
#include <cmath>

#include "engine/core/error.hpp"
#include "engine/core/parallel.hpp"
#include "engine/core/text.hpp"
#include "engine/ops/layout.hpp"

namespace gradus::parity {
namespace {

// Streams of a seed.
enum Stream : std::uint64_t { positions_stream = 1, support_stream, queries_stream };

// Rows uniform on the sphere.
Tensor on_the_sphere(index_t rows, index_t columns, const Random& random) {
  Tensor t = Tensor::empty({rows, columns}, DType::f64);
  double* x = t.mutable_data<double>();
  random.fill_normal(std::span(x, static_cast<std::size_t>(rows * columns)));
  parallel_for(rows, std::max<index_t>(1, (1 << 15) / columns), [&](index_t begin, index_t end) {
    for (index_t r = begin; r < end; ++r) {
      double squares = 0;
      for (index_t i = 0; i < columns; ++i) squares += x[r * columns + i] * x[r * columns + i];
      const double scale = 1 / std::sqrt(squares);
      for (index_t i = 0; i < columns; ++i) x[r * columns + i] *= scale;
    }
  });
  return t;
}

constexpr index_t word_bits = 64;
index_t words_of(index_t bits) { return (bits + word_bits - 1) / word_bits; }
double sign_at(const std::int64_t* row, index_t i) { return (static_cast<std::uint64_t>(row[i / word_bits]) >> (i % word_bits) & 1) != 0 ? 1 : -1; }

}  // namespace

Problem make_problem(index_t bits, index_t embedding, index_t heads, std::uint64_t seed) {
  if (embedding < 1 || heads < 1 || heads > bits)
    throw ValueError("parity", cat(bits, " bits, embeddings of ", embedding, ", ", heads, " heads"), "give M >= 1 and 1 <= heads <= bits");
  std::vector<index_t> order(static_cast<std::size_t>(bits));
  Random(seed, support_stream).fill_permutation(order);
  order.resize(static_cast<std::size_t>(heads));
  std::sort(order.begin(), order.end());
  return {on_the_sphere(bits, embedding, Random(seed, positions_stream)), std::move(order)};
}

Tensor initial_queries(const Problem& problem, Start start, std::uint64_t seed) {
  const index_t heads = problem.heads(), m = problem.embedding();
  if (start == Start::anti_symmetric && heads != 2)
    throw ValueError("parity", cat("an anti-symmetric start of ", heads, " heads"), "it is theta and -theta: two heads; start independently");
  Tensor queries = on_the_sphere(heads, m, Random(seed, queries_stream));
  if (start == Start::anti_symmetric)
    for (index_t i = 0; i < m; ++i) queries.set({1, i}, -queries.at({0, i}));
  return queries;
}

Tensor random_signs(index_t rows, index_t bits, const Random& random, index_t first) {
  const index_t words = words_of(bits);
  Tensor signs = Tensor::empty({rows, words}, DType::i64);
  std::int64_t* to = signs.mutable_data<std::int64_t>();
  parallel_for(rows * words, 1 << 12, [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) to[i] = static_cast<std::int64_t>(random.bits(static_cast<std::uint64_t>(first * words + i)));
  });
  return signs;
}

Tensor all_signs(index_t bits) {
  if (bits < 1 || bits > 20) throw ValueError("parity", cat("all inputs of ", bits, " bits"), "2^20 inputs are the most");
  return reshape(Tensor::arange(index_t{1} << bits), {-1, 1});
}

Tensor targets_of(const Tensor& signs, const std::vector<index_t>& support, DType dtype) {
  const index_t rows = signs.size(0), words = signs.size(1);
  Tensor targets = Tensor::empty({rows}, dtype);
  const std::int64_t* from = signs.data<std::int64_t>();
  visit_floating(dtype, "parity", [&](auto tag) {
    using T = decltype(tag);
    T* to = targets.mutable_data<T>();
    for (index_t r = 0; r < rows; ++r) {
      double y = support.size() % 2 == 0 ? -1 : 1;
      for (const index_t s : support) y *= sign_at(from + r * words, s);
      to[r] = static_cast<T>(y);
    }
  });
  return targets;
}

Tensor unpacked(const Tensor& signs, index_t bits, DType dtype) {
  const index_t rows = signs.size(0), words = signs.size(1);
  Tensor x = Tensor::empty({rows, bits}, dtype);
  const std::int64_t* from = signs.data<std::int64_t>();
  visit_floating(dtype, "parity", [&](auto tag) {
    using T = decltype(tag);
    T* to = x.mutable_data<T>();
    parallel_for(rows, std::max<index_t>(1, (1 << 15) / bits), [&](index_t begin, index_t end) {
      for (index_t r = begin; r < end; ++r)
        for (index_t i = 0; i < bits; ++i) to[r * bits + i] = static_cast<T>(sign_at(from + r * words, i));
    });
  });
  return x;
}

}  // namespace gradus::parity
