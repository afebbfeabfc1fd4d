#include "models/parity/transformer.hpp"

#include "engine/core/text.hpp"
#include "engine/ops/attention.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"

namespace gradus::parity {
namespace {

// 1 where a matrix (M + 1, M + 1) is free: row 0, columns 1 to M.
Tensor structure(index_t width, DType dtype) {
  Tensor mask = Tensor::zeros({width, width}, dtype);
  for (index_t j = 1; j < width; ++j) mask.set({0, j}, 1);
  return mask;
}

}  // namespace

Tensor tokens_of(const Problem& problem, const Tensor& signs) {
  const index_t rows = signs.size(0), d = problem.bits(), m = problem.embedding();
  const Tensor x = unsqueeze(unpacked(signs, d, DType::f64), -1), positions = expand(problem.positions, {rows, d, m});
  const Tensor cls = pad(Tensor::ones({rows, 1, 1}, DType::f64), -1, 0, m);
  return concat(std::vector<Tensor>{cls, concat(std::vector<Tensor>{x, positions}, -1)}, 1);
}

Tensor attention_matrices(const Tensor& queries) {
  const index_t heads = queries.size(0), m = queries.size(1);
  return pad(pad(reshape(queries, {heads, 1, m}), -1, 1, 0), 1, 0, m);
}

Tensor free_entries(const Tensor& matrices) { return slice(select(matrices, 1, 0), -1, {1}); }

Tensor transformer_output(const Tensor& tokens, const Tensor& matrices) {
  if (matrices.size(0) != 2) throw ValueError("parity", cat(matrices.size(0), " heads"), "the quadratic units multiply two");
  const index_t count = tokens.size(1), width = tokens.size(2);
  const Tensor cls = slice(tokens, 1, {0, 1}), values = slice(tokens, -1, {0, 1});
  Tensor keys = Tensor::ones({count}, DType::boolean);
  keys.set({0}, 0);
  const Tensor masked = matrices * structure(width, matrices.dtype());
  const auto head = [&](index_t h) {
    const Tensor query = matmul(cls, select(masked, 0, h));
    return reshape(attention(query, tokens, values, {.score = Score::dot, .key_mask = keys}), {tokens.size(0)});
  };
  const Tensor first = head(0), second = head(1);
  return 0.25 * (square(first - second) - square(first + second));
}

}  // namespace gradus::parity
