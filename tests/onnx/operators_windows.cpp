// Convolutions and pools. ONNX has any number of axes in space and pads each end by itself; ours have two axes and pad both ends alike.

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/ops/conv.hpp"
#include "engine/ops/layout.hpp"
#include "tests/onnx/operators.hpp"

namespace gradus::onnx {
namespace {

/// What a node says about one axis of the image.
struct Axis {
  index_t size, kernel, stride = 1, dilation = 1, before = 0, after = 0;

  [[nodiscard]] index_t reach() const { return (kernel - 1) * dilation + 1; }
};
using Axes = std::array<Axis, 2>;

/// A row of points is an image of height 1.
Tensor as_image(const Tensor& x) {
  if (x.rank() != 3 && x.rank() != 4) skip_attribute("windows over other than one or two axes");
  return x.rank() == 3 ? unsqueeze(x, 2) : x;
}
Tensor like_input(const Tensor& y, const Tensor& x) { return x.rank() == 3 ? squeeze(y, 2) : y; }

/// Padding so that every step of the image gives a window.
void pad_to_same(Axis& axis, bool more_after) {
  const index_t windows = (axis.size + axis.stride - 1) / axis.stride;
  const index_t total = std::max<index_t>((windows - 1) * axis.stride + axis.reach() - axis.size, 0);
  axis.before = more_after ? total / 2 : total - total / 2;
  axis.after = total - axis.before;
}

/// `kernel` is that of the weight where there is one.
Axes axes_of(Call& c, const Tensor& image, int rank, const std::vector<index_t>& kernel) {
  const std::size_t n = static_cast<std::size_t>(rank) - 2;
  const std::vector<index_t> ones(n, 1), none(2 * n, 0);
  const std::vector<index_t> sizes = c.list("kernel_shape", kernel), strides = c.list("strides", ones), dilations = c.list("dilations", ones);
  const std::vector<index_t> pads = c.list("pads", none);
  const std::string automatic = c.text("auto_pad", "NOTSET");
  Axes axes{Axis{image.size(2), 1}, Axis{image.size(3), 1}};
  for (std::size_t i = 0; i < n; ++i) {
    Axis& axis = axes[2 - n + i];
    axis = {axis.size, sizes.at(i), strides.at(i), dilations.at(i), pads.at(i), pads.at(i + n)};
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") pad_to_same(axis, automatic == "SAME_UPPER");
    else if (automatic != "NOTSET" && automatic != "VALID") skip_attribute("auto_pad " + automatic);
  }
  return axes;
}

bool even(const Axes& axes) {
  return std::all_of(axes.begin(), axes.end(), [](const Axis& a) { return a.before == a.after; });
}
Size2 kernels(const Axes& a) { return {a[0].kernel, a[1].kernel}; }
Size2 strides(const Axes& a) { return {a[0].stride, a[1].stride}; }
Size2 dilations(const Axes& a) { return {a[0].dilation, a[1].dilation}; }
Size2 padding(const Axes& a) { return even(a) ? Size2{a[0].before, a[1].before} : Size2{0}; }

/// The image with a border of `value`.
Tensor bordered(Tensor x, const Axes& axes, double value) {
  for (int i = 0; i < 2; ++i) {
    const int axis = 2 + i;
    const auto border = [&](index_t width) {
      Shape shape = x.shape();
      shape[axis] = width;
      return Tensor::full(shape, value, x.dtype());
    };
    const auto& [before, after] = std::pair(axes[static_cast<std::size_t>(i)].before, axes[static_cast<std::size_t>(i)].after);
    x = concat(std::vector<Tensor>{border(before), x, border(after)}, axis);
  }
  return x;
}

std::vector<index_t> kernel_of(const Tensor& weight) { return {weight.shape().begin() + 2, weight.shape().end()}; }

Outputs convolution(Call& c) {
  const Tensor &x = c.in(0), &weight = c.in(1);
  Tensor image = as_image(x);
  const Axes axes = axes_of(c, image, x.rank(), kernel_of(weight));
  if (!even(axes)) image = bordered(image, axes, 0);
  const Tensor y = conv2d(
      image, as_image(weight),
      {.stride = strides(axes), .padding = padding(axes), .dilation = dilations(axes), .groups = c.integer("group", 1), .bias = c.has(2) ? c.in(2) : Tensor()});
  return {like_input(y, x)};
}

/// Where the output's size is given, the padding follows from it; a lack is made up at the end.
void pad_to_output(Axis& axis, index_t& more, index_t output, bool more_after) {
  const index_t total = axis.stride * (axis.size - 1) + more + axis.reach() - output;
  if (total < 0) more -= total;
  const index_t taken = std::max<index_t>(total, 0);
  axis.before = more_after ? taken / 2 : taken - taken / 2;
  axis.after = taken - axis.before;
}

Outputs transposed_convolution(Call& c) {
  const Tensor &x = c.in(0), &weight = c.in(1), image = as_image(x);
  Axes axes = axes_of(c, image, x.rank(), kernel_of(weight));
  const std::size_t n = static_cast<std::size_t>(x.rank()) - 2;
  const std::vector<index_t> output = c.list("output_shape"), given = c.list("output_padding", std::vector<index_t>(n, 0));
  const std::string automatic = c.text("auto_pad", "NOTSET");
  index_t more[2] = {};
  for (std::size_t i = 0; i < n; ++i) {
    Axis& axis = axes[2 - n + i];
    more[2 - n + i] = given[i];
    if (!output.empty()) pad_to_output(axis, more[2 - n + i], output[i], automatic == "SAME_UPPER");
    else if (automatic.starts_with("SAME")) pad_to_output(axis, more[2 - n + i], axis.size * axis.stride, automatic == "SAME_UPPER");
  }
  Tensor y = conv_transpose2d(image, as_image(weight),
                              {.stride = strides(axes),
                               .padding = padding(axes),
                               .output_padding = {more[0], more[1]},
                               .dilation = dilations(axes),
                               .groups = c.integer("group", 1),
                               .bias = c.has(2) ? c.in(2) : Tensor()});
  if (!even(axes))
    for (int i = 0; i < 2; ++i) {
      const Axis& axis = axes[static_cast<std::size_t>(i)];
      y = slice(y, 2 + i, {axis.before, y.size(2 + i) - axis.after});
    }
  return {like_input(y, x)};
}

/// With ceil_mode a last window may reach beyond the padding, but must begin in the image or before it. Returns how far it reaches.
index_t beyond(const Axis& axis) {
  const index_t room = axis.before + axis.size + axis.after - axis.reach();
  index_t windows = (room + axis.stride - 1) / axis.stride + 1;
  if ((windows - 1) * axis.stride >= axis.size + axis.before) --windows;
  return std::max<index_t>((windows - 1) * axis.stride - room, 0);
}

/// Indices of maxima in their image, as ONNX counts them: in the whole tensor, along columns when asked.
Tensor places(const Tensor& index, const Tensor& image, bool along_columns) {
  auto values = index.to_vector<index_t>();
  const index_t height = image.size(2), width = image.size(3), windows = index.size(2) * index.size(3);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const index_t row = values[i] / width, column = values[i] % width, plane = static_cast<index_t>(i) / windows;
    values[i] = plane * height * width + (along_columns ? column * height + row : row * width + column);
  }
  return Tensor::from(values, index.shape());
}

Outputs maximum_pool(Call& c) {
  const Tensor& x = c.in(0);
  Tensor image = as_image(x);
  Axes axes = axes_of(c, image, x.rank(), {});
  if (c.integer("ceil_mode", 0) != 0)
    for (Axis& axis : axes) axis.after += beyond(axis);
  const bool along_columns = c.integer("storage_order", 0) != 0, indices = c.outputs() > 1;
  if (!even(axes)) {
    if (indices) skip_attribute("MaxPool, output 1 with uneven padding");
    image = bordered(image, axes, -HUGE_VAL);
  }
  const MaxPool2dOptions options{.stride = strides(axes), .padding = padding(axes), .dilation = dilations(axes)};
  Outputs outputs{like_input(max_pool2d(image, kernels(axes), options), x)};
  if (indices) outputs.push_back(like_input(places(max_pool2d_index(image, kernels(axes), options), image, along_columns), x));
  return outputs;
}

/// Uneven padding and windows beyond it: the mean of the bordered image over that of what counts.
Outputs average_pool(Call& c) {
  const Tensor& x = c.in(0);
  const Tensor image = as_image(x);
  const Axes axes = axes_of(c, image, x.rank(), {});
  const bool count_padding = c.integer("count_include_pad", 0) != 0;
  Axes outside{};
  if (c.integer("ceil_mode", 0) != 0)
    for (std::size_t i = 0; i < 2; ++i) outside[i].after = beyond(axes[i]);
  AvgPool2dOptions options{.stride = strides(axes), .padding = padding(axes), .dilation = dilations(axes), .count_include_pad = count_padding};
  if (even(axes) && outside[0].after + outside[1].after == 0) return {like_input(avg_pool2d(image, kernels(axes), options), x)};
  options.padding = 0;
  const auto mean_of = [&](const Tensor& inside, double padding) {
    return avg_pool2d(bordered(bordered(inside, axes, padding), outside, 0), kernels(axes), options);
  };
  const Tensor counted = mean_of(Tensor::ones(image.shape(), image.dtype()), count_padding ? 1 : 0);
  return {like_input(mean_of(image, 0) / counted, x)};
}

constexpr Entry entries[] = {
    {"Conv", convolution},
    {"ConvTranspose", transposed_convolution},
    {"MaxPool", maximum_pool},
    {"AveragePool", average_pool},
};

}  // namespace

std::span<const Entry> window_operators() { return entries; }

}  // namespace gradus::onnx
