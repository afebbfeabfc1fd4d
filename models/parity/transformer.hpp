#pragma once
// The same function as a standard one-layer transformer (2.6): tokens [x_i ; v_i] after a CLS token [1 ; 0], one head a hidden bit, a
// structural mask on the attention matrix, values that are the tokens' first coordinate, and quadratic units for the product. Its free
// entries have the gradients of the queries.

#include "engine/autograd/tape.hpp"
#include "models/parity/problem.hpp"

namespace gradus::parity {

/// Tokens (N, D + 1, M + 1) of packed signs, CLS first, f64.
[[nodiscard]] Tensor tokens_of(const Problem& problem, const Tensor& signs);
/// Attention matrices (H, M + 1, M + 1) whose free entries, the row of the bit and the columns of positions, hold the queries (H, M).
[[nodiscard]] Tensor attention_matrices(const Tensor& queries);
/// The free entries (H, M) of matrices or of their gradients.
[[nodiscard]] Tensor free_entries(const Tensor& matrices);
/// f (N) for two heads: logits CLS^T A_h token, A_h masked to its free entries; CLS does not attend to itself;
/// -h_1 h_2 = ((h_1 - h_2)^2 - (h_1 + h_2)^2) / 4. Differentiable in the matrices. ValueError for other than two heads.
[[nodiscard]] Tensor transformer_output(const Tensor& tokens, const Tensor& matrices);

}  // namespace gradus::parity
