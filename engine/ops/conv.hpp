#pragma once
// Convolution and pooling of images (B, C, H, W).

#include "engine/autograd/op.hpp"

namespace gradus {

/// A height and a width; one number stands for both.
struct Size2 {
  constexpr Size2(index_t both) : Size2(both, both) {}
  constexpr Size2(index_t height, index_t width) : values{height, width} {}
  [[nodiscard]] constexpr index_t operator[](int axis) const { return values[axis]; }
  index_t values[2];
};

struct Conv2dOptions {
  Size2 stride = 1;
  Size2 padding = 0;   ///< zeros on each side
  Size2 dilation = 1;  ///< step between the taps of the kernel
  index_t groups = 1;  ///< input and output channels are cut into as many groups, each seeing its own
  Tensor bias{};       ///< (O); none: 0
};
/// y[b,o,i,j] = bias_o + sum over c, p, q of w[o,c,p,q] x[b, c, i s - padding + p d, j s - padding + q d] (cross-correlation, as usual)
/// for x (B, C, H, W) and w (O, C / groups, KH, KW): (B, O, OH, OW) with OH = (H + 2 padding - d (KH - 1) - 1) / s + 1 rounded down.
/// Each element is one chain in the order of c, p, q, the padding's zeros included.
[[nodiscard]] Tensor conv2d(const Tensor& x, const Tensor& weight, const Conv2dOptions& options = {});
/// The gradient of conv2d with respect to its weight, for a gradient g (B, O, OH, OW) and kernels of a size: (O, C / groups, KH, KW).
[[nodiscard]] Tensor conv2d_weight_gradient(const Tensor& x, const Tensor& g, const Size2& kernel, const Conv2dOptions& options = {});

struct ConvTranspose2dOptions {
  Size2 stride = 1;
  Size2 padding = 0;         ///< taken off on each side
  Size2 output_padding = 0;  ///< more rows and columns at the end; below stride or dilation
  Size2 dilation = 1;
  index_t groups = 1;
  Tensor bias{};  ///< (O); none: 0
};
/// The adjoint of conv2d: x (B, C, H, W) and w (C, O / groups, KH, KW) give (B, O, OH, OW) with
/// OH = (H - 1) s - 2 padding + d (KH - 1) + output_padding + 1.
[[nodiscard]] Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const ConvTranspose2dOptions& options = {});

struct MaxPool2dOptions {
  Size2 stride = 0;   ///< 0: the size of the window
  Size2 padding = 0;  ///< of places that never are the maximum; every window must hold one of the image's
  Size2 dilation = 1;
};
/// Maximum of each window of a size. NaN wins; of equal elements the first gets the gradient.
[[nodiscard]] Tensor max_pool2d(const Tensor& x, const Size2& window, const MaxPool2dOptions& options = {});
/// Where those maxima are: row * W + column, i64.
[[nodiscard]] Tensor max_pool2d_index(const Tensor& x, const Size2& window, const MaxPool2dOptions& options = {});

struct AvgPool2dOptions {
  Size2 stride = 0;  ///< 0: the size of the window
  Size2 padding = 0;
  Size2 dilation = 1;
  bool count_include_pad = true;  ///< divide by the size of the window, or by how much of it lies in the image
};
/// Mean of each window of a size, the padding counting as zeros.
[[nodiscard]] Tensor avg_pool2d(const Tensor& x, const Size2& window, const AvgPool2dOptions& options = {});

[[nodiscard]] std::span<const OpDef* const> conv_ops();
[[nodiscard]] std::span<const OpDef* const> pool_ops();

}  // namespace gradus
