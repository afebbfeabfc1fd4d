#pragma once
// The k-means transformer: one layer is exactly one iteration of Lloyd's algorithm when the attention map is the limiting one.
//
// Data tokens are x~_i = [x_i ; y_i] and centre tokens c~_j = [c_j ; e_j] (Theorem 2.1, Euclidean attention); for dot-product
// attention (Theorem 2.2) both carry their squared norm and a constant 1 as well: [x ; y ; ||x||^2 ; 1]. A layer is four attentions on two
// residual streams:
//     X~' = X~ + A1(X~ <- C~) + A2(X~ <- X~)        1: cross, assigns; 2: self, clears the old assignment
//     C~' = C~ + A3(C~ <- X~') + A4(C~ <- C~)       3: cross, averages; 4: self, clears the old centre
// Theorem 2.2 adds a feed-forward with the rectified quadratic that writes ||c'||^2.

#include <functional>
#include <limits>

#include "engine/autograd/tape.hpp"
#include "models/kmeans/lloyd.hpp"

namespace gradus::kmeans {

enum class Construction : std::uint8_t {
  euclidean,    ///< Theorem 2.1: scores -||K z - Q z'||^2
  dot_product,  ///< Theorem 2.2: scores <Q z', K z>, squared norms in the tokens, a feed-forward layer
};
enum class SelfAttention : std::uint8_t {
  identity,  ///< each token attends to itself alone: the output is V z (the published run's switch)
  full,      ///< attention over all tokens: N x N scores
};
enum class CentreUpdate : std::uint8_t {
  linear,   ///< normalised linear attention, a_ij = y_ij / sum_i y_ij (the published run's switch); an empty cluster's centre stays
  softmax,  ///< the same map as the other attentions; an empty cluster's centre goes to the mean of all points
};

struct TransformerOptions {
  Construction construction = Construction::euclidean;
  double inverse_temperature = std::numeric_limits<double>::infinity();  ///< infinity: the limiting map (hardmax)
  SelfAttention self_attention = SelfAttention::identity;
  CentreUpdate centre_update = CentreUpdate::linear;
};

/// Matrices of one attention, each (D', D') and applied to row tokens as z W^T.
struct AttentionWeights {
  Tensor query, key, value;
};
/// All matrices of a layer: blocks of 0 and +-identity (Eq. 5), D' = D + K (Euclidean) or D + K + 2 (dot product).
struct LayerWeights {
  AttentionWeights cross_data, self_data, cross_centres, self_centres;
  Tensor feed_forward_in, feed_forward_out;  ///< (2D, D') and (D', 2D); undefined for the Euclidean construction
};
[[nodiscard]] LayerWeights theorem_weights(Construction construction, index_t dimensions, index_t clusters, DType dtype);

/// Tokens of both streams.
struct Tokens {
  Tensor data;     ///< (N, D')
  Tensor centres;  ///< (K, D')
};
/// Points (N, D) and centres (K, D) as tokens, with y = 0 and e_j the j-th unit vector.
[[nodiscard]] Tokens embed(const Tensor& points, const Tensor& centres, Construction construction);
/// One layer by the matrices above, in differentiable ops throughout: it can be taped, watched and differentiated.
[[nodiscard]] Tokens layer(const Tokens& tokens, const LayerWeights& weights, const TransformerOptions& options);

/// `layers` layers from the given start. Objectives and labels are those of the paper's figures: of the centres after each layer.
/// With identity self-attention and the linear update the points go through in blocks and nothing of size N x K is held; the other
/// switches use layer(). The dot-product construction works on points centred at their mean (k-means does not notice), since a
/// dot product loses the digits that an offset takes.
[[nodiscard]] Trace run_transformer(const Tensor& points, const Tensor& start, index_t layers, const TransformerOptions& options, bool keep_labels = false,
                                    const std::function<void(index_t layer)>& progress = {});

/// Points beyond which full self-attention is refused unless asked for: its scores need 8 N^2 bytes in f64.
inline constexpr index_t full_attention_limit = 20000;

}  // namespace gradus::kmeans
