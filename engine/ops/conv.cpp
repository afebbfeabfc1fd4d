// conv2d, its adjoint, and its weight's gradient: the three faces of one trilinear form sum of g conv(x, w), so each one's gradients
// are the other two, to any order. Each sample goes through its columns and one product of matrices a group.
#include "engine/ops/conv.hpp"

#include "engine/ops/layout.hpp"
#include "engine/ops/windows.hpp"

namespace gradus {
namespace {

using define::Inputs;

struct ConvAttributes {
  Windows windows;
  index_t groups;
};

Tensor correlate(const Tensor& x, const Tensor& w, const ConvAttributes& a);
Tensor spread(const Tensor& g, const Tensor& w, const ConvAttributes& a);
Tensor weight_gradient(const Tensor& x, const Tensor& g, const ConvAttributes& a);

// The sizes of all three: x (batch, channels, image), w (outputs, channels / groups, kernel), g (batch, outputs, count).
struct Sizes {
  index_t batch, channels, outputs, groups;
  index_t positions, taps;  // of a window

  [[nodiscard]] index_t group_channels() const { return groups > 0 ? channels / groups : 0; }
  [[nodiscard]] index_t group_outputs() const { return groups > 0 ? outputs / groups : 0; }
  [[nodiscard]] index_t rows() const { return channels * taps; }  // of the columns
  [[nodiscard]] index_t group_rows() const { return group_channels() * taps; }
};
Sizes sizes_of(const Run& r, index_t batch, index_t channels, index_t outputs) {
  const auto& a = r.attr<ConvAttributes>();
  return {batch, channels, outputs, a.groups, a.windows.positions(), a.windows.taps()};
}

void check_dtypes_and_groups(const Run& r, index_t channels, index_t outputs) {
  define::require_floating(r, 0);
  define::require_same_dtype(r, 0, 1);
  const index_t groups = r.attr<ConvAttributes>().groups;
  if (groups < 1 || channels % groups != 0 || outputs % groups != 0)
    throw ShapeError(r.name(), cat(channels, " and ", outputs, " channels in ", groups, " groups"), "the groups must divide both");
}

void require_shape(const Run& r, const char* what, int i, const Shape& wanted, const char* hint) {
  if (r.in(i).shape() != wanted) throw ShapeError(r.name(), cat(what, " has shape ", r.in(i).shape(), ", not ", wanted), hint);
}

Shape image_shape(const Run& r, index_t batch, index_t channels) {
  const Size2& image = r.attr<ConvAttributes>().windows.image;
  return {batch, channels, image[0], image[1]};
}
Shape output_shape(const Run& r, index_t batch, index_t outputs) {
  const Size2& count = r.attr<ConvAttributes>().windows.count;
  return {batch, outputs, count[0], count[1]};
}
Shape weight_shape(const Run& r, index_t outputs, index_t group_channels) {
  const Size2& kernel = r.attr<ConvAttributes>().windows.kernel;
  return {outputs, group_channels, kernel[0], kernel[1]};
}

// Calls f(sample, columns) for every sample, in parallel, with room for its columns.
template <class T, class F>
void for_samples(const Sizes& s, F&& f) {
  parallel_for(s.batch, 1, [&](index_t begin, index_t end) {
    Tensor columns = Tensor::empty({s.rows() * s.positions}, dtype_of<T>());
    for (index_t sample = begin; sample < end; ++sample) f(sample, columns.mutable_data<T>());
  });
}

template <class T>
void run_correlate(Run& r) {
  const Tensor x = contiguous(r.in(0)), w = contiguous(r.in(1));
  const Sizes s = sizes_of(r, x.shape()[0], x.shape()[1], w.shape()[0]);
  const Windows& windows = r.attr<ConvAttributes>().windows;
  const T *from = x.data<T>(), *weights = w.data<T>();
  T* to = r.out().mutable_data<T>();
  for_samples<T>(s, [&](index_t sample, T* columns) {
    unfold(windows, s.channels, from + sample * s.channels * windows.pixels(), columns);
    kernels::active<T>().gemm.gemm({.m = s.group_outputs(),
                                    .n = s.positions,
                                    .k = s.group_rows(),
                                    .a = weights,
                                    .a_row = s.group_rows(),
                                    .b = columns,
                                    .b_row = s.positions,
                                    .c = to + sample * s.outputs * s.positions,
                                    .c_row = s.positions,
                                    .batch = s.groups,
                                    .a_batch = s.group_outputs() * s.group_rows(),
                                    .b_batch = s.group_rows() * s.positions,
                                    .c_batch = s.group_outputs() * s.positions});
  });
}

template <class T>
void run_spread(Run& r) {
  const Tensor g = contiguous(r.in(0)), w = contiguous(r.in(1));
  const Sizes s = sizes_of(r, g.shape()[0], r.out().shape()[1], g.shape()[1]);
  const Windows& windows = r.attr<ConvAttributes>().windows;
  const T *from = g.data<T>(), *weights = w.data<T>();
  T* to = r.out().mutable_data<T>();
  for_samples<T>(s, [&](index_t sample, T* columns) {
    kernels::active<T>().gemm.gemm({.m = s.group_rows(),
                                    .n = s.positions,
                                    .k = s.group_outputs(),
                                    .a = weights,
                                    .a_row = 1,
                                    .a_col = s.group_rows(),
                                    .b = from + sample * s.outputs * s.positions,
                                    .b_row = s.positions,
                                    .c = columns,
                                    .c_row = s.positions,
                                    .batch = s.groups,
                                    .a_batch = s.group_outputs() * s.group_rows(),
                                    .b_batch = s.group_outputs() * s.positions,
                                    .c_batch = s.group_rows() * s.positions});
    fold(windows, s.channels, columns, to + sample * s.channels * windows.pixels());
  });
}

// One sample after the other, each adding to the last: an order that no number of threads changes.
template <class T>
void run_weight_gradient(Run& r) {
  const Tensor x = contiguous(r.in(0)), g = contiguous(r.in(1));
  const Sizes s = sizes_of(r, x.shape()[0], x.shape()[1], g.shape()[1]);
  const Windows& windows = r.attr<ConvAttributes>().windows;
  const T *from = x.data<T>(), *up = g.data<T>();
  T* to = r.out().mutable_data<T>();
  if (s.batch == 0) std::fill_n(to, r.out().numel(), T{0});
  Tensor room = Tensor::empty({s.rows() * s.positions}, dtype_of<T>());
  T* columns = room.mutable_data<T>();
  for (index_t sample = 0; sample < s.batch; ++sample) {
    unfold(windows, s.channels, from + sample * s.channels * windows.pixels(), columns);
    kernels::active<T>().gemm.gemm({.m = s.group_outputs(),
                                    .n = s.group_rows(),
                                    .k = s.positions,
                                    .a = up + sample * s.outputs * s.positions,
                                    .a_row = s.positions,
                                    .b = columns,
                                    .b_row = 1,
                                    .b_col = s.positions,
                                    .c = to,
                                    .c_row = s.group_rows(),
                                    .accumulate = sample > 0,
                                    .batch = s.groups,
                                    .a_batch = s.group_outputs() * s.positions,
                                    .b_batch = s.group_rows() * s.positions,
                                    .c_batch = s.group_outputs() * s.group_rows()});
  }
}

const OpDef conv2d_op = {
    .name = "conv2d",
    .family = "convolution",
    .formula = R"(y_{boij} = \sum_{cpq} w_{ocpq}\, x_{b, c, is - P + pd, js - P + qd})",
    .shapes = "(B, C, H, W), (O, C/G, KH, KW) -> (B, O, OH, OW)",
    .law = "the padding's zeros take part: inf or NaN in the weight shows there too",
    .shape =
        [](Run& r) {
          const Shape &x = r.in(0).shape(), &w = r.in(1).shape();
          check_dtypes_and_groups(r, x[1], w[0]);
          require_shape(r, "the weight", 1, weight_shape(r, w[0], x[1] / r.attr<ConvAttributes>().groups), "a weight is (O, C / groups, KH, KW)");
          r.declare(output_shape(r, x[0], w[0]), r.in(0).dtype());
        },
    .forward = [](Run& r) { visit_floating(r.out().dtype(), r.name(), [&](auto tag) { run_correlate<decltype(tag)>(r); }); },
    .vjp =
        [](Vjp& b) {
          const auto& a = b.attr<ConvAttributes>();
          if (b.needs(0)) b.to(0, spread(b.grad(), b.input(1), a));
          if (b.needs(1)) b.to(1, weight_gradient(b.input(0), b.grad(), a));
        },
    .saves = save::inputs,
    .cases =
        [] {
          const auto image = normal_input({2, 2, 5, 4}), kernel = normal_input({3, 2, 3, 2});
          const auto call = [](Inputs x) { return conv2d(x[0], x[1]); };
          return std::vector<OpCase>{
              {"3 x 2", {image, kernel}, call},
              {"1 x 1", {image, normal_input({3, 2, 1, 1})}, call},
              {"bias", {image, kernel, normal_input({3})}, [](Inputs x) { return conv2d(x[0], x[1], {.bias = x[2]}); }},
              {"stride and padding", {image, kernel}, [](Inputs x) { return conv2d(x[0], x[1], {.stride = 2, .padding = 1}); }},
              {"height apart from width",
               {image, kernel},
               [](Inputs x) {
                 return conv2d(x[0], x[1], {.stride = {1, 3}, .padding = {0, 2}, .dilation = {2, 1}});
               }},
              {"dilation", {image, kernel}, [](Inputs x) { return conv2d(x[0], x[1], {.padding = 1, .dilation = 2}); }},
              {"groups", {normal_input({2, 4, 3, 3}), normal_input({6, 2, 2, 2})}, [](Inputs x) { return conv2d(x[0], x[1], {.groups = 2}); }},
              {"a channel each", {normal_input({1, 3, 3, 4}), normal_input({3, 1, 2, 2})}, [](Inputs x) { return conv2d(x[0], x[1], {.groups = 3}); }},
              {"empty", {normal_input({0, 2, 5, 4}), kernel}, call}};
        },
};

const OpDef conv_transpose2d_op = {
    .name = "conv_transpose2d",
    .family = "convolution",
    .formula = R"(y_{b, o, is - P + pd, js - P + qd} \mathrel{+}= w_{copq}\, x_{bcij})",
    .shapes = "(B, C, H, W), (C, O/G, KH, KW) -> (B, O, OH, OW)",
    .law = "the adjoint of conv2d; places that no window reaches are 0",
    .shape =
        [](Run& r) {
          const Shape &g = r.in(0).shape(), &w = r.in(1).shape();
          const index_t channels = w[1] * r.attr<ConvAttributes>().groups;
          check_dtypes_and_groups(r, channels, g[1]);
          require_shape(r, "the weight", 1, weight_shape(r, g[1], w[1]), "a weight is (C, O / groups, KH, KW)");
          require_shape(r, "x", 0, output_shape(r, g[0], g[1]), "it is shaped like the output of conv2d");
          r.declare(image_shape(r, g[0], channels), r.in(0).dtype());
        },
    .forward = [](Run& r) { visit_floating(r.out().dtype(), r.name(), [&](auto tag) { run_spread<decltype(tag)>(r); }); },
    .vjp =
        [](Vjp& b) {
          const auto& a = b.attr<ConvAttributes>();
          if (b.needs(0)) b.to(0, correlate(b.grad(), b.input(1), a));
          if (b.needs(1)) b.to(1, weight_gradient(b.grad(), b.input(0), a));
        },
    .saves = save::inputs,
    .cases =
        [] {
          const auto image = normal_input({2, 3, 3, 4}), kernel = normal_input({3, 2, 3, 2});
          const auto call = [](Inputs x) { return conv_transpose2d(x[0], x[1]); };
          return std::vector<OpCase>{
              {"3 x 2", {image, kernel}, call},
              {"bias", {image, kernel, normal_input({2})}, [](Inputs x) { return conv_transpose2d(x[0], x[1], {.bias = x[2]}); }},
              {"stride and padding", {image, kernel}, [](Inputs x) { return conv_transpose2d(x[0], x[1], {.stride = 2, .padding = 1}); }},
              {"output padding",
               {image, kernel},
               [](Inputs x) {
                 return conv_transpose2d(x[0], x[1], {.stride = {2, 3}, .output_padding = {1, 2}});
               }},
              {"dilation",
               {image, kernel},
               [](Inputs x) {
                 return conv_transpose2d(x[0], x[1], {.output_padding = {1, 0}, .dilation = {2, 1}});
               }},
              {"groups", {normal_input({1, 4, 3, 2}), normal_input({4, 2, 2, 2})}, [](Inputs x) { return conv_transpose2d(x[0], x[1], {.groups = 2}); }},
              {"empty", {normal_input({0, 3, 3, 4}), kernel}, call}};
        },
};

const OpDef conv2d_weight_gradient_op = {
    .name = "conv2d_weight_gradient",
    .family = "convolution",
    .formula = R"(y_{ocpq} = \sum_{bij} g_{boij}\, x_{b, c, is - P + pd, js - P + qd})",
    .shapes = "(B, C, H, W), (B, O, OH, OW) -> (O, C/G, KH, KW)",
    .law = "summed sample by sample; of no sample: 0",
    .shape =
        [](Run& r) {
          const Shape &x = r.in(0).shape(), &g = r.in(1).shape();
          check_dtypes_and_groups(r, x[1], g[1]);
          require_shape(r, "g", 1, output_shape(r, x[0], g[1]), "it is shaped like the output of conv2d");
          r.declare(weight_shape(r, g[1], x[1] / r.attr<ConvAttributes>().groups), r.in(0).dtype());
        },
    .forward = [](Run& r) { visit_floating(r.out().dtype(), r.name(), [&](auto tag) { run_weight_gradient<decltype(tag)>(r); }); },
    .vjp =
        [](Vjp& b) {
          const auto& a = b.attr<ConvAttributes>();
          if (b.needs(0)) b.to(0, spread(b.input(1), b.grad(), a));
          if (b.needs(1)) b.to(1, correlate(b.input(0), b.grad(), a));
        },
    .saves = save::inputs,
    .cases =
        [] {
          return std::vector<OpCase>{{"3 x 2",
                                      {normal_input({2, 2, 5, 4}), normal_input({2, 3, 3, 3})},
                                      [](Inputs x) {
                                        return conv2d_weight_gradient(x[0], x[1], {3, 2});
                                      }},
                                     {"all options",
                                      {normal_input({2, 4, 4, 5}), normal_input({2, 2, 2, 5})},
                                      [](Inputs x) {
                                        return conv2d_weight_gradient(x[0], x[1], 2, {.stride = {3, 1}, .padding = 1, .dilation = {1, 2}, .groups = 2});
                                      }},
                                     {"empty", {normal_input({0, 2, 5, 4}), normal_input({0, 3, 3, 3})}, [](Inputs x) {
                                        return conv2d_weight_gradient(x[0], x[1], {3, 2});
                                      }}};
        },
};

Tensor correlate(const Tensor& x, const Tensor& w, const ConvAttributes& a) { return apply(conv2d_op, {&x, &w}, a); }
Tensor spread(const Tensor& g, const Tensor& w, const ConvAttributes& a) { return apply(conv_transpose2d_op, {&g, &w}, a); }
Tensor weight_gradient(const Tensor& x, const Tensor& g, const ConvAttributes& a) { return apply(conv2d_weight_gradient_op, {&x, &g}, a); }

void check_bias(const char* op, const Tensor& bias, index_t outputs) {
  if (bias.defined() && bias.shape() != Shape{outputs}) throw ShapeError(op, cat("the bias has shape ", bias.shape()), cat("give ", Shape{outputs}));
}
Tensor with_bias(const Tensor& y, const Tensor& bias) { return bias.defined() ? y + reshape(bias, {-1, 1, 1}) : y; }

// The whole size of the adjoint's image along one axis.
index_t transposed_size(index_t count, int axis, const Size2& kernel, const ConvTranspose2dOptions& o) {
  const index_t s = o.stride[axis], d = o.dilation[axis], more = o.output_padding[axis];
  if (more < 0 || more >= std::max(s, d)) throw ValueError("conv_transpose2d", cat("output padding ", more), "it is at least 0 and below stride or dilation");
  const index_t size = (count - 1) * s - 2 * o.padding[axis] + d * (kernel[axis] - 1) + more + 1;
  if (count < 1 || size < 1) throw ShapeError("conv_transpose2d", cat("an axis of ", count, " gives one of ", size), "use less padding");
  return size;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Conv2dOptions& options) {
  const Size2 image = image_of("conv2d", "x", x), kernel = image_of("conv2d", "the weight", weight);
  const ConvAttributes a{windows_over("conv2d", image, kernel, options.stride, options.padding, options.dilation), options.groups};
  check_bias("conv2d", options.bias, weight.shape()[0]);
  return with_bias(correlate(x, weight, a), options.bias);
}

Tensor conv2d_weight_gradient(const Tensor& x, const Tensor& g, const Size2& kernel, const Conv2dOptions& options) {
  const Size2 image = image_of("conv2d_weight_gradient", "x", x);
  (void)image_of("conv2d_weight_gradient", "g", g);
  return weight_gradient(x, g, {windows_over("conv2d_weight_gradient", image, kernel, options.stride, options.padding, options.dilation), options.groups});
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const ConvTranspose2dOptions& options) {
  const Size2 count = image_of("conv_transpose2d", "x", x), kernel = image_of("conv_transpose2d", "the weight", weight);
  check_steps("conv_transpose2d", kernel, options.stride, options.padding, options.dilation);
  const Size2 image{transposed_size(count[0], 0, kernel, options), transposed_size(count[1], 1, kernel, options)};
  check_bias("conv_transpose2d", options.bias, weight.shape()[1] * options.groups);
  return with_bias(spread(x, weight, {{image, kernel, options.stride, options.padding, options.dilation, count}, options.groups}), options.bias);
}

std::span<const OpDef* const> conv_ops() {
  static const OpDef* const all[] = {&conv2d_op, &conv_transpose2d_op, &conv2d_weight_gradient_op};
  return all;
}

}  // namespace gradus
