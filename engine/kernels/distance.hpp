#pragma once
// Squared Euclidean distances between points and centres, and the fused passes of k-means over them.
//
// A distance is one fma chain over the coordinates in order, of differences:
//   s = 0; for p = 0 .. d-1: t = x[i,p] - c[j,p]; s = fma(t, t, s)
// never the expansion into norms: it is never negative, exactly 0 from a point to itself, and keeps its digits far from the origin.
// (The baseline instruction set has no fma: there t t is rounded before it is added.)
// Sums over points are chains in the order of the points within blocks of distance_block_rows points; the sums of the blocks are
// merged in the pairwise tree
//   for (h = 1; h < blocks; h *= 2) for (q = 0; q + h < blocks; q += 2 h) block[q] += block[q + h];
// so no result depends on threads, vector width or strides. Coordinates of a point are contiguous; row strides are in elements.
// All kernels split their work over threads by themselves; working memory comes from the pool.

#include "engine/core/dtype.hpp"

namespace gradus::kernels {

/// Points in one block of the sums over points.
inline constexpr index_t distance_block_rows = 1024;

/// out[i, j] = |x_i - c_j|^2 for each pair of a batch.
template <class T>
struct DistanceArgs {
  index_t n = 0, k = 0, d = 0;  ///< points, centres, coordinates; any of them may be 0 (d = 0 gives zeros)
  const T* x = nullptr;         ///< (n, d)
  index_t x_row = 0;
  const T* c = nullptr;  ///< (k, d)
  index_t c_row = 0;
  T* out = nullptr;  ///< (n, k)
  index_t out_row = 0;
  index_t batch = 1;
  index_t x_batch = 0, c_batch = 0;  ///< from one pair to the next; 0 shares the operand
  index_t out_batch = 0;
};

/// Gradients of sum_ij g_ij |x_i - c_j|^2:
///   gx_i = 2 sum_j g_ij (x_i - c_j)   s = 0; for j in order: s = fma(g_ij, x_i - c_j, s); gx_i = s + s
///   gc_j = 2 sum_i g_ij (c_j - x_i)   s = fma(g_ij, c_j - x_i, s) over the points of a block; blocks merged in the tree, then doubled
/// Either output may be null; outputs are overwritten and never shared within a batch.
template <class T>
struct DistanceBackwardArgs {
  index_t n = 0, k = 0, d = 0;
  const T* x = nullptr;  ///< (n, d)
  index_t x_row = 0;
  const T* c = nullptr;  ///< (k, d)
  index_t c_row = 0;
  const T* g = nullptr;  ///< (n, k)
  index_t g_row = 0;
  T* gx = nullptr;  ///< (n, d) or null
  index_t gx_row = 0;
  T* gc = nullptr;  ///< (k, d) or null
  index_t gc_row = 0;
  index_t batch = 1;
  index_t x_batch = 0, c_batch = 0, g_batch = 0, gx_batch = 0, gc_batch = 0;
};

/// The nearest centre of every point, without an (n, k) matrix. k is at least 1.
template <class T>
struct NearestArgs {
  index_t n = 0, k = 0, d = 0;
  const T* x = nullptr;  ///< (n, d)
  index_t x_row = 0;
  const T* c = nullptr;  ///< (k, d)
  index_t c_row = 0;
  index_t* index = nullptr;  ///< (n) or null: the least distance, the lowest index on ties; NaN is less than everything
  T* distance = nullptr;     ///< (n) or null: that squared distance, the bits of squared_distance
};

/// One pass of k-means in its limiting form: every point spreads weight 1 evenly over its nearest centres, those with
///   distance <= least + tolerance (1 + least).
/// A point with a NaN distance gives NaN weight to every centre; one whose least distance is +inf gives no weight at all.
/// k is at least 1. Every output may be null.
template <class T>
struct AssignArgs {
  index_t n = 0, k = 0, d = 0;
  const T* x = nullptr;  ///< (n, d)
  index_t x_row = 0;
  const T* c = nullptr;  ///< (k, d)
  index_t c_row = 0;
  T tolerance = 0;              ///< at least 0; 0 splits exact ties only
  T* weights = nullptr;         ///< (k): sum_i w_ij
  T* sums = nullptr;            ///< (k, d) contiguous: sum_i w_ij x_i, one fma a point
  index_t* labels = nullptr;    ///< (n): the lowest index among the nearest centres as defined above; of a NaN row the first NaN
  double* objective = nullptr;  ///< (1): sum_i min_j distance, in double for every T
  index_t* tied = nullptr;      ///< (1): number of points with more than one nearest centre
};

/// out[i, j] for n points and k centres that GemmKernels::pack packed as the columns of a (d, .) matrix; c is at the first of them,
/// a multiple of packed_panel.
template <class T>
struct PackedDistanceArgs {
  index_t n = 0, k = 0, d = 0;
  const T* x = nullptr;
  index_t x_row = 0;
  const T* c = nullptr;
  T* out = nullptr;
  index_t out_row = 0;
};

template <class T>
struct DistanceKernels {
  void (*squared_distance)(const DistanceArgs<T>&);
  void (*squared_distance_backward)(const DistanceBackwardArgs<T>&);
  void (*nearest)(const NearestArgs<T>&);
  void (*assign_accumulate)(const AssignArgs<T>&);
  /// On the calling thread; needs no memory.
  void (*distance_packed)(const PackedDistanceArgs<T>&);
};

}  // namespace gradus::kernels
