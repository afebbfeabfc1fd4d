#pragma once
// Losses of clustering by gradient: the smoothed k-means objective, and DDCL's decomposition of the quantisation error into
// reconstruction and prototype variance. D_tk = ||z_t - p_k||^2 throughout.

#include "engine/ops/loss.hpp"

namespace gradus {

struct SmoothedKmeansOptions {
  Number inverse_temperature = 1.0;       ///< finite and > 0; to infinity it becomes the k-means objective
  Reduction reduction = Reduction::mean;  ///< over the batch axes
};
/// sum_i sum_j w_ij D_ij with w_i = softmax_j(-inverse_temperature D_ij): an upper bound of the k-means objective. Points
/// (..., N, D) and centres (..., K, D), one number for each element of the batch. The gradient flows through the weights too.
[[nodiscard]] Tensor smoothed_kmeans_loss(const Tensor& points, const Tensor& centres, const SmoothedKmeansOptions& options = {});

/// q_t = softmax_k(-D_tk / tau), tau finite and > 0: (..., T, D), (..., K, D) -> (..., T, K).
[[nodiscard]] Tensor boltzmann_assignment(const Tensor& z, const Tensor& prototypes, const Number& tau = 1.0);

/// Three errors of each token for any assignment q (..., T, K), reduced over all tokens. With pbar_t = sum_k q_tk p_k and rows
/// of q that sum to 1, quantization = reconstruction + variance.
/// L_q: sum_k q_tk D_tk.
[[nodiscard]] Tensor ddcl_quantization(const Tensor& z, const Tensor& prototypes, const Tensor& q, const LossOptions& options = {});
/// L_OLS: ||z_t - pbar_t||^2.
[[nodiscard]] Tensor ddcl_reconstruction(const Tensor& z, const Tensor& prototypes, const Tensor& q, const LossOptions& options = {});
/// V: sum_k q_tk ||p_k - pbar_t||^2.
[[nodiscard]] Tensor ddcl_variance(const Tensor& prototypes, const Tensor& q, const LossOptions& options = {});

struct FreeEnergyOptions {
  Number tau = 1.0;  ///< finite and > 0
  Reduction reduction = Reduction::mean;
};
/// F = -tau ln sum_k e^{-D_tk / tau} = L_q - tau H(q) at the Boltzmann assignment.
[[nodiscard]] Tensor ddcl_free_energy(const Tensor& z, const Tensor& prototypes, const FreeEnergyOptions& options = {});

struct DdclOptions {
  Number tau = 1.0;            ///< finite and > 0
  bool stop_gradient = false;  ///< hold q fixed in the gradients of the output and of all terms but the free energy
  Reduction reduction = Reduction::mean;
};
struct DdclTerms {
  Tensor assignments;     ///< q, (..., T, K)
  Tensor output;          ///< pbar, (..., T, D)
  Tensor quantization;    ///< L_q
  Tensor reconstruction;  ///< L_OLS
  Tensor variance;        ///< V
  Tensor free_energy;     ///< F
};
/// All of the above at the Boltzmann assignment, from one matrix of distances.
[[nodiscard]] DdclTerms ddcl_terms(const Tensor& z, const Tensor& prototypes, const DdclOptions& options = {});

[[nodiscard]] std::span<const OpDef* const> clustering_loss_ops();

}  // namespace gradus
