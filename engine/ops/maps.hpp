#pragma once
// Sparse and random maps from scores to weights, and the choice of one by name. Laws as in normalize.hpp: -inf (masked) entries
// weigh 0, a row of nothing else gives zeros with gradient 0, NaN or +inf makes its row NaN, and weights below the smallest
// normal number are exactly 0.

#include "engine/ops/normalize.hpp"

namespace gradus {

/// The point of the simplex nearest to beta x: y_i = [beta x_i - tau]_+, tau such that they sum to 1. Exact, by sorting.
[[nodiscard]] Tensor sparsemax(const Tensor& x, const MapOptions& options = {});
/// y_i = [(alpha - 1) beta x_i - tau]_+^{1 / (alpha - 1)}, tau such that they sum to 1. alpha is finite and > 1 (else a
/// ValueError): 2 is sparsemax, the limit 1 is softmax, whose weights it approaches as alpha falls.
[[nodiscard]] Tensor entmax(const Tensor& x, double alpha = 1.5, const MapOptions& options = {});
/// argmax_y <y, beta x> - ||y||_alpha over the simplex: y_i proportional to [beta x_i - tau]_+^{1 / (alpha - 1)}, tau such that
/// sum_i [beta x_i - tau]_+^{alpha / (alpha - 1)} = 1. alpha > 1, else a ValueError; infinity gives uniform weights over the
/// support of sparsemax and gradient zero almost everywhere.
[[nodiscard]] Tensor normmax(const Tensor& x, double alpha = 2, const MapOptions& options = {});

struct GumbelOptions {
  index_t axis = -1;
  Number inverse_temperature = 1.0;
  Tensor mask{};           ///< as in MapOptions
  bool hard = false;       ///< one weight of 1, at the largest of the soft sample; the gradient is that of the soft sample
  std::uint64_t seed = 0;  ///< on a tape each pass and step draws anew
};
/// softmax(beta (x + g)) with g = -ln(-ln u), u uniform on the open interval (0, 1): a sample that becomes one-hot with
/// probabilities softmax(x) as beta grows.
[[nodiscard]] Tensor gumbel_softmax(const Tensor& x, const GumbelOptions& options = {});
/// x + g, the noise of gumbel_softmax: g depends on the seed, the step and the place in x only.
[[nodiscard]] Tensor add_gumbel(const Tensor& x, std::uint64_t seed = 0);
/// 1 at the first largest weight of each row, 0 elsewhere; zeros stay zeros. The gradient passes straight through, as if it
/// were the identity.
[[nodiscard]] Tensor straight_through_hardmax(const Tensor& weights, index_t axis = -1);

enum class MapKind : std::uint8_t {
  softmax,
  log_softmax,  ///< logarithms of weights
  hardmax,
  sparsemax,
  entmax,
  normmax,
  gumbel_softmax,
  normalized_linear,
  erf,       ///< element by element, not normalised
  identity,  ///< the scores themselves
};
/// "softmax", "normalized_linear", ...
[[nodiscard]] const char* name_of(MapKind kind) noexcept;
/// The kind of that name; an unknown one is a ValueError that lists near ones.
[[nodiscard]] MapKind map_kind(std::string_view name);

/// A map with its parameters.
struct MapSpec {
  MapKind kind = MapKind::softmax;
  Number inverse_temperature = 1.0;
  double alpha = 1.5;      ///< of entmax and normmax
  bool hard = false;       ///< of gumbel_softmax
  std::uint64_t seed = 0;  ///< of gumbel_softmax
};

/// Weights of the map along an axis. Every kind scales the scores by the inverse temperature (which the results of hardmax and
/// normalized_linear do not depend on); entries masked by `mask`, as in MapOptions, weigh 0 in every kind but log_softmax (-inf).
[[nodiscard]] Tensor apply_map(const Tensor& scores, const MapSpec& spec, index_t axis = -1, const Tensor& mask = {});
/// d weights_i / d scores_j of every row, in the last two axes: scores (..., N, ...) along the axis give (..., N, N). Not
/// recorded. Of gumbel_softmax: at the perturbed scores, the output of its step add_gumbel; no noise is added here.
[[nodiscard]] Tensor map_jacobian(const Tensor& scores, const MapSpec& spec, index_t axis = -1, const Tensor& mask = {});

[[nodiscard]] std::span<const OpDef* const> sparse_map_ops();
[[nodiscard]] std::span<const OpDef* const> gumbel_ops();

}  // namespace gradus
