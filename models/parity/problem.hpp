#pragma once
// Sparse exclusive or: signs x uniform on {-1, 1}^D, of which K hidden ones, the support, decide the target
// y = (-1)^(K+1) prod_{s in support} x_s (K = 2: -x_a x_b), and the frozen embeddings of positions that attention looks at.

#include <vector>

#include "engine/core/random.hpp"
#include "engine/tensor/tensor.hpp"

namespace gradus::parity {

struct Problem {
  Tensor positions;              ///< (D, M), rows of length 1, f64
  std::vector<index_t> support;  ///< K different positions, in order

  [[nodiscard]] index_t bits() const { return positions.size(0); }
  [[nodiscard]] index_t embedding() const { return positions.size(1); }
  [[nodiscard]] index_t heads() const { return static_cast<index_t>(support.size()); }
};

/// Embeddings uniform on the sphere S^(M-1) and a random support of `heads` positions, both from the seed. A ValueError unless
/// 1 <= heads <= D and M >= 1.
[[nodiscard]] Problem make_problem(index_t bits, index_t embedding, index_t heads, std::uint64_t seed);

enum class Start {
  anti_symmetric,  ///< theta uniform on the sphere, theta~ = -theta; for two heads only
  independent,     ///< every query uniform on the sphere
};
/// Queries (H, M) at the start, one a hidden bit. ValueError for an anti-symmetric start of other than two heads.
[[nodiscard]] Tensor initial_queries(const Problem& problem, Start start, std::uint64_t seed);

/// N rows of D random signs as packed bits, i64 (N, ceil(D / 64)): rows first, first + 1, ... of an endless sequence.
[[nodiscard]] Tensor random_signs(index_t rows, index_t bits, const Random& random, index_t first = 0);
/// All 2^D inputs, D <= 20, as packed bits.
[[nodiscard]] Tensor all_signs(index_t bits);
/// The targets (N) of packed signs.
[[nodiscard]] Tensor targets_of(const Tensor& signs, const std::vector<index_t>& support, DType dtype);
/// The signs as numbers, (N, D): for models that need them so.
[[nodiscard]] Tensor unpacked(const Tensor& signs, index_t bits, DType dtype);

}  // namespace gradus::parity
