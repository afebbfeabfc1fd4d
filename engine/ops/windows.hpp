#pragma once
// Windows that slide over an image: their geometry, and the two linear maps between an image and the columns of its windows. For
// engine/ops only.

#include <algorithm>
#include <utility>

#include "engine/ops/conv.hpp"
#include "engine/ops/define.hpp"

namespace gradus {

/// Element k of window i lies at i * stride - padding + k * dilation along either axis.
struct Windows {
  Size2 image, kernel, stride, padding, dilation;
  Size2 count;  ///< how many windows

  [[nodiscard]] index_t pixels() const { return image[0] * image[1]; }
  [[nodiscard]] index_t taps() const { return kernel[0] * kernel[1]; }
  [[nodiscard]] index_t positions() const { return count[0] * count[1]; }
  [[nodiscard]] index_t offset(int axis, index_t k) const { return k * dilation[axis] - padding[axis]; }
  /// How many elements of window i lie in the image.
  [[nodiscard]] index_t elements_inside(int axis, index_t i) const {
    index_t elements = 0;
    for (index_t k = 0; k < kernel[axis]; ++k) {
      const index_t at = i * stride[axis] + offset(axis, k);
      elements += at >= 0 && at < image[axis] ? 1 : 0;
    }
    return elements;
  }
  /// First and past-the-last window whose element k lies in the image.
  [[nodiscard]] std::pair<index_t, index_t> inside(int axis, index_t k) const {
    const index_t at = offset(axis, k), s = stride[axis];
    const index_t first = at >= 0 ? 0 : (s - 1 - at) / s, last = at < image[axis] ? (image[axis] - 1 - at) / s + 1 : 0;
    return {std::min(first, count[axis]), std::max(std::min(first, count[axis]), std::min(last, count[axis]))};
  }
};

/// Windows over the last two axes of x; everything out of range is an error of `op`.
[[nodiscard]] Windows windows_over(const char* op, const Size2& image, const Size2& kernel, const Size2& stride, const Size2& padding, const Size2& dilation);
/// Raises the errors of their numbers, sizes aside.
void check_steps(const char* op, const Size2& kernel, const Size2& stride, const Size2& padding, const Size2& dilation);
/// (height, width) of a tensor of rank 4; another rank is a ShapeError.
[[nodiscard]] Size2 image_of(const char* op, const char* what, const Tensor& x);

/// columns[(c, p, q), (i, j)] = element (p, q) of window (i, j) of channel c, 0 in the padding.
template <class T>
void unfold(const Windows& w, index_t channels, const T* image, T* columns) {
  const index_t grain = std::max<index_t>(1, compute::elementwise_grain / w.positions());
  parallel_for(channels * w.taps(), grain, [&](index_t begin, index_t end) {
    for (index_t row = begin; row < end; ++row) {
      const index_t channel = row / w.taps(), p = row / w.kernel[1] % w.kernel[0], q = row % w.kernel[1];
      const auto [i0, i1] = w.inside(0, p);
      const auto [j0, j1] = w.inside(1, q);
      T* to = columns + row * w.positions();
      std::fill_n(to, w.positions(), T{0});
      for (index_t i = i0; i < i1; ++i) {
        const T* from = image + channel * w.pixels() + (i * w.stride[0] + w.offset(0, p)) * w.image[1] + w.offset(1, q);
        for (index_t j = j0; j < j1; ++j) to[i * w.count[1] + j] = from[j * w.stride[1]];
      }
    }
  });
}

/// The adjoint: every pixel is the sum of its places in the columns, in the order of (p, q).
template <class T>
void fold(const Windows& w, index_t channels, const T* columns, T* image) {
  compute::parallel_rows(channels, w.taps() * w.positions(), [&](index_t first, index_t rows) {
    for (index_t channel = first; channel < first + rows; ++channel) {
      T* to = image + channel * w.pixels();
      std::fill_n(to, w.pixels(), T{0});
      for (index_t tap = 0; tap < w.taps(); ++tap) {
        const index_t p = tap / w.kernel[1], q = tap % w.kernel[1];
        const auto [i0, i1] = w.inside(0, p);
        const auto [j0, j1] = w.inside(1, q);
        const T* from = columns + (channel * w.taps() + tap) * w.positions();
        for (index_t i = i0; i < i1; ++i) {
          T* row = to + (i * w.stride[0] + w.offset(0, p)) * w.image[1] + w.offset(1, q);
          for (index_t j = j0; j < j1; ++j) row[j * w.stride[1]] += from[i * w.count[1] + j];
        }
      }
    }
  });
}

}  // namespace gradus
