// Maxima and means of the windows of an image.
#include <cmath>

#include "engine/ops/layout.hpp"
#include "engine/ops/windows.hpp"

namespace gradus {
namespace {

using define::Inputs;

struct PoolAttributes {
  Windows windows;
  bool count_padding;
};

Shape pooled_shape(const Run& r) {
  const Size2& count = r.attr<PoolAttributes>().windows.count;
  return {r.in(0).shape()[0], r.in(0).shape()[1], count[0], count[1]};
}

// The index of the greatest element of window (i, j) of one channel: the first of equals, the first NaN if there is one.
template <class T>
index_t greatest(const Windows& w, const T* image, index_t i, index_t j) {
  index_t best = -1;
  for (index_t p = 0; p < w.kernel[0]; ++p) {
    const index_t row = i * w.stride[0] + w.offset(0, p);
    if (row < 0 || row >= w.image[0]) continue;
    for (index_t q = 0; q < w.kernel[1]; ++q) {
      const index_t column = j * w.stride[1] + w.offset(1, q);
      if (column < 0 || column >= w.image[1]) continue;
      const index_t at = row * w.image[1] + column;
      if (best < 0 || image[at] > image[best] || (std::isnan(image[at]) && !std::isnan(image[best]))) best = at;
    }
  }
  return best;
}

const OpDef max_pool2d_index_op = {
    .name = "max_pool2d_index",
    .family = "convolution",
    .formula = R"(y_{bcij} = \arg\max_{(r, s) \in \mathrm{window}_{ij}} x_{bcrs})",
    .shapes = "(B, C, H, W) -> (B, C, OH, OW)",
    .law = "row * W + column; ties give the first; NaN wins; the padding never does",
    .gradient = GradientKind::zero,
    .gradient_note = "an index has no derivative",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          r.declare(pooled_shape(r), DType::i64);
        },
    .forward =
        [](Run& r) {
          const Windows& w = r.attr<PoolAttributes>().windows;
          const Tensor x = contiguous(r.in(0));
          visit_floating(x.dtype(), r.name(), [&](auto tag) {
            using T = decltype(tag);
            const T* from = x.data<T>();
            std::int64_t* to = r.out().mutable_data<std::int64_t>();
            compute::parallel_rows(x.shape()[0] * x.shape()[1], w.positions() * w.taps(), [&](index_t first, index_t count) {
              for (index_t at = first * w.positions(); at < (first + count) * w.positions(); ++at)
                to[at] = greatest(w, from + at / w.positions() * w.pixels(), at / w.count[1] % w.count[0], at % w.count[1]);
            });
          });
        },
    .cases =
        [] {
          return std::vector<OpCase>{
              {"2 x 2", {normal_input({2, 3, 4, 6})}, [](Inputs x) { return max_pool2d_index(x[0], 2); }},
              {"ties", {value_input({1, 1, 2, 3}, {1, 1, 0, 1, 1, 2})}, [](Inputs x) { return max_pool2d_index(x[0], 2, {.stride = 1}); }},
              {"empty", {normal_input({0, 3, 4, 4})}, [](Inputs x) { return max_pool2d_index(x[0], 2); }}};
        },
};

const OpDef max_pool2d_op = {
    .name = "max_pool2d",
    .family = "convolution",
    .formula = R"(y_{bcij} = \max_{(r, s) \in \mathrm{window}_{ij}} x_{bcrs})",
    .shapes = "(B, C, H, W) -> (B, C, OH, OW)",
    .law = "the first of equal elements gets the gradient; NaN wins; a window of padding alone is an error",
    .gradient_note = "at ties that of the first",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          r.declare(pooled_shape(r), r.in(0).dtype());
        },
    .composite =
        [](Run& r) {
          const auto& a = r.attr<PoolAttributes>();
          const Tensor& x = r.in(0);
          const Tensor index = apply(max_pool2d_index_op, {&x}, a);
          const index_t b = x.shape()[0], c = x.shape()[1];
          return reshape(gather(reshape(x, {b, c, a.windows.pixels()}), 2, reshape(index, {b, c, a.windows.positions()})), pooled_shape(r));
        },
    .cases =
        [] {
          const auto image = normal_input({2, 2, 5, 6});
          return std::vector<OpCase>{
              {"2 x 2", {image}, [](Inputs x) { return max_pool2d(x[0], 2); }},
              {"overlapping",
               {image},
               [](Inputs x) {
                 return max_pool2d(x[0], {3, 2}, {.stride = {1, 2}});
               }},
              {"padding", {image}, [](Inputs x) { return max_pool2d(x[0], 3, {.stride = 2, .padding = 1}); }},
              {"dilation",
               {image},
               [](Inputs x) {
                 return max_pool2d(x[0], 2, {.stride = 1, .dilation = {3, 2}});
               }},
              {"ties", {value_input({1, 1, 2, 3}, {1, 1, 0, 1, 1, 2})}, [](Inputs x) { return max_pool2d(x[0], 2, {.stride = 1}); }, true},
              {"all below zero, padded", {uniform_input({1, 1, 3, 3}, -2, -1)}, [](Inputs x) { return max_pool2d(x[0], 2, {.padding = 1}); }},
              {"empty", {normal_input({0, 3, 4, 4})}, [](Inputs x) { return max_pool2d(x[0], 2); }}};
        },
};

// How many elements of each window lie in the image, along one axis.
Tensor counts_inside(const Windows& w, int axis, DType dtype) {
  Tensor counts = Tensor::empty({w.count[axis]}, dtype);
  visit_floating(dtype, "avg_pool2d", [&](auto tag) {
    using T = decltype(tag);
    T* to = counts.mutable_data<T>();
    for (index_t i = 0; i < w.count[axis]; ++i) to[i] = static_cast<T>(w.elements_inside(axis, i));
  });
  return counts;
}

const OpDef avg_pool2d_op = {
    .name = "avg_pool2d",
    .family = "convolution",
    .formula = R"(y_{bcij} = \frac{1}{n_{ij}} \sum_{(r, s) \in \mathrm{window}_{ij}} x_{bcrs})",
    .shapes = "(B, C, H, W) -> (B, C, OH, OW)",
    .law = "the padding counts as zeros, or not at all; a window of padding alone is an error",
    .shape =
        [](Run& r) {
          define::require_floating(r, 0);
          r.declare(pooled_shape(r), r.in(0).dtype());
        },
    .composite =
        [](Run& r) {
          const auto& [w, count_padding] = r.attr<PoolAttributes>();
          const Tensor& x = r.in(0);
          const DType dtype = x.dtype();
          const Tensor planes = reshape(x, {x.shape()[0] * x.shape()[1], 1, w.image[0], w.image[1]});
          const Tensor totals =
              conv2d(planes, Tensor::ones({1, 1, w.kernel[0], w.kernel[1]}, dtype), {.stride = w.stride, .padding = w.padding, .dilation = w.dilation});
          const Tensor sums = reshape(totals, pooled_shape(r));
          if (count_padding) return sums / static_cast<double>(w.taps());
          return sums / (unsqueeze(counts_inside(w, 0, dtype), 1) * counts_inside(w, 1, dtype));
        },
    .cases =
        [] {
          const auto image = normal_input({2, 2, 5, 6});
          return std::vector<OpCase>{
              {"2 x 2", {image}, [](Inputs x) { return avg_pool2d(x[0], 2); }},
              {"overlapping",
               {image},
               [](Inputs x) {
                 return avg_pool2d(x[0], {3, 2}, {.stride = {1, 2}});
               }},
              {"padding", {image}, [](Inputs x) { return avg_pool2d(x[0], 3, {.stride = 2, .padding = 1}); }},
              {"padding not counted", {image}, [](Inputs x) { return avg_pool2d(x[0], 3, {.stride = 2, .padding = 1, .count_include_pad = false}); }},
              {"dilation",
               {image},
               [](Inputs x) {
                 return avg_pool2d(x[0], 2, {.stride = 1, .dilation = {3, 2}});
               }},
              {"empty", {normal_input({0, 3, 4, 4})}, [](Inputs x) { return avg_pool2d(x[0], 2); }}};
        },
};

template <class Options>
Windows pool_windows(const char* op, const Tensor& x, const Size2& window, const Options& o) {
  const Size2 stride{o.stride[0] == 0 ? window[0] : o.stride[0], o.stride[1] == 0 ? window[1] : o.stride[1]};
  const Windows w = windows_over(op, image_of(op, "x", x), window, stride, o.padding, o.dilation);
  for (int axis = 0; axis < 2; ++axis)
    for (index_t i = 0; i < w.count[axis]; ++i)
      if (w.elements_inside(axis, i) == 0)
        throw ShapeError(op, cat("a window holds nothing but padding, x being ", x.shape()), "use less padding or a smaller window");
  return w;
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const Size2& window, const MaxPool2dOptions& options) {
  return apply(max_pool2d_op, {&x}, PoolAttributes{pool_windows("max_pool2d", x, window, options), false});
}
Tensor max_pool2d_index(const Tensor& x, const Size2& window, const MaxPool2dOptions& options) {
  return apply(max_pool2d_index_op, {&x}, PoolAttributes{pool_windows("max_pool2d_index", x, window, options), false});
}
Tensor avg_pool2d(const Tensor& x, const Size2& window, const AvgPool2dOptions& options) {
  return apply(avg_pool2d_op, {&x}, PoolAttributes{pool_windows("avg_pool2d", x, window, options), options.count_include_pad});
}

std::span<const OpDef* const> pool_ops() {
  static const OpDef* const all[] = {&max_pool2d_index_op, &max_pool2d_op, &avg_pool2d_op};
  return all;
}

}  // namespace gradus
