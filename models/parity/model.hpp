#pragma once
// The sparse-XOR transformer (paper 2): H trainable queries attend to the frozen embeddings of positions; the values are the signs,
//     gamma_h = map(V theta_h),   f(x) = (-1)^(H+1) prod_h sum_i gamma_hi x_i.
// 2 M trainable numbers for two heads. All functions here are differentiable, on a tape.

#include "engine/autograd/tape.hpp"
#include "models/parity/problem.hpp"

namespace gradus::parity {

enum class Attention { softmax, linear, erf };

/// gamma (H, D) of queries (H, M): softmax over positions, or v_i . theta or erf(v_i . theta) position by position.
[[nodiscard]] Tensor attention_of(const Problem& problem, const Tensor& queries, Attention attention);

/// E (f - y)^2 over all x, for two heads, as a function of gamma = (u, v), (2, D):
/// |u|^2 |v|^2 + 2 (u.v)^2 - 2 sum u_i^2 v_i^2 - 2 (u_a v_b + u_b v_a) + 1. ValueError for other than two heads.
[[nodiscard]] Tensor population_loss(const Problem& problem, const Tensor& gamma);

/// The population loss and its gradients in closed form (no tape), two heads: g_i = dL/du_i = 2 u_i |v|^2 + 4 (u.v) v_i - 4 u_i v_i^2
/// - 2 (v_b [i=a] + v_a [i=b]) and likewise for v, then through the map to the queries (softmax: V^T (u (g - u.g))).
struct Population {
  double loss = 0;
  Tensor gamma;     ///< (2, D)
  Tensor gradient;  ///< of the queries, (2, M)
};
[[nodiscard]] Population population(const Problem& problem, const Tensor& queries, Attention attention);

/// How attention stands to the support.
struct Reading {
  std::vector<index_t> chosen;  ///< position of the greatest |gamma| of each head
  std::vector<double> masses;   ///< gamma_h at each support position, (H, K) row by row
  bool specialised = false;     ///< every head chose another position of the support
  double worst_case_loss = 0;   ///< a bound on (f - y)^2 for every x: (prod_h (1 + r_h) - 1)^2, r_h = |gamma_hs - 1| + sum of the other |gamma_hi|
};
/// Reads gamma (H, D). When it is not specialised the worst case is not bounded by the masses and is infinite.
[[nodiscard]] Reading read_attention(const Problem& problem, const Tensor& gamma);

}  // namespace gradus::parity
