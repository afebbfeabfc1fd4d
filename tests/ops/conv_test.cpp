// Convolution and pooling against plain loops, their laws, and reference values.
#include "engine/ops/conv.hpp"

#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"
#include "tests/reference.hpp"

using namespace gradus;
using gradus::testing::deviation;
using gradus::testing::f64;
using gradus::testing::gradient;
using gradus::testing::message_of;
using gradus::testing::not_a_number;
using gradus::testing::reference;

namespace {

Tensor normal(const Shape& shape, std::uint64_t stream) { return random_normal(shape, DType::f64, 5, stream); }

// The definition, element by element.
Tensor plain_conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& o) {
  const auto out = [&](int axis) { return (x.size(axis + 2) + 2 * o.padding[axis] - o.dilation[axis] * (w.size(axis + 2) - 1) - 1) / o.stride[axis] + 1; };
  Tensor y = Tensor::zeros({x.size(0), w.size(0), out(0), out(1)}, DType::f64);
  const index_t per_group = w.size(1), outputs = w.size(0) / o.groups;
  for (index_t b = 0; b < y.size(0); ++b)
    for (index_t f = 0; f < y.size(1); ++f)
      for (index_t i = 0; i < y.size(2); ++i)
        for (index_t j = 0; j < y.size(3); ++j) {
          double total = o.bias.defined() ? o.bias.at({f}) : 0;
          for (index_t c = 0; c < per_group; ++c)
            for (index_t p = 0; p < w.size(2); ++p)
              for (index_t q = 0; q < w.size(3); ++q) {
                const index_t row = i * o.stride[0] - o.padding[0] + p * o.dilation[0], column = j * o.stride[1] - o.padding[1] + q * o.dilation[1];
                if (row >= 0 && row < x.size(2) && column >= 0 && column < x.size(3))
                  total += w.at({f, c, p, q}) * x.at({b, f / outputs * per_group + c, row, column});
              }
          y.set({b, f, i, j}, total);
        }
  return y;
}

}  // namespace

TEST_CASE("conv2d is its definition with every option", "[conv]") {
  const Tensor x = normal({2, 4, 7, 6}, 1), bias = normal({6}, 3);
  for (const index_t groups : {1, 2}) {
    const Tensor w = normal({6, 4 / groups, 3, 2}, 2);
    const std::vector<Conv2dOptions> all{{.groups = groups},
                                         {.groups = groups, .bias = bias},
                                         {.stride = {2, 1}, .groups = groups},
                                         {.padding = {0, 2}, .groups = groups},
                                         {.padding = 3, .groups = groups},
                                         {.dilation = {3, 2}, .groups = groups},
                                         {.stride = {2, 3}, .padding = {2, 1}, .dilation = {2, 3}, .groups = groups, .bias = bias}};
    for (std::size_t i = 0; i < all.size(); ++i) {
      INFO("groups " << groups << ", options " << i);
      CHECK(all_close(conv2d(x, w, all[i]), plain_conv2d(x, w, all[i]), 1e-12, 1e-12));
    }
  }
}

TEST_CASE("conv_transpose2d is the adjoint of conv2d", "[conv]") {
  // <conv(x, w), g> = <x, conv_transpose(g, w)> = <w, weight gradient(x, g)>, also where a stride leaves rows unused.
  for (const Size2& stride : {Size2{1}, Size2{2, 3}})
    for (const Size2& dilation : {Size2{1}, Size2{2, 1}})
      for (const index_t groups : {1, 2}) {
        const Tensor x = normal({2, 4, 8, 7}, 1), w = normal({6, 4 / groups, 3, 2}, 2);
        const Conv2dOptions options{.stride = stride, .padding = 1, .dilation = dilation, .groups = groups};
        const Tensor y = conv2d(x, w, options), g = normal(y.shape(), 3);
        const auto unused = [&](int axis) { return (x.size(axis + 2) + 2 - dilation[axis] * (w.size(axis + 2) - 1) - 1) % stride[axis]; };
        const Tensor back =
            conv_transpose2d(g, w, {.stride = stride, .padding = 1, .output_padding = {unused(0), unused(1)}, .dilation = dilation, .groups = groups});
        const Tensor to_weight = conv2d_weight_gradient(x, g, {3, 2}, options);
        REQUIRE(back.shape() == x.shape());
        REQUIRE(to_weight.shape() == w.shape());
        const double product = sum(y * g).item();
        CHECK(sum(x * back).item() == Approx(product).epsilon(1e-12));
        CHECK(sum(w * to_weight).item() == Approx(product).epsilon(1e-12));
        CHECK(bit_equal(gradient([&](const Tensor& t) { return conv2d(t, w, options); }, x, g), back));
        CHECK(bit_equal(gradient([&](const Tensor& t) { return conv2d(x, t, options); }, w, g), to_weight));
      }
}

TEST_CASE("output_padding may pass the stride where the dilation allows it", "[conv]") {
  const Tensor x = normal({1, 1, 2, 2}, 1), w = normal({1, 1, 2, 2}, 2);
  const Tensor y = conv_transpose2d(x, w, {.output_padding = {2, 1}, .dilation = 3});
  CHECK(y.shape() == Shape{1, 1, 7, 6});
  CHECK(equal(view::slice(view::slice(y, 2, {0, 5}), 3, {0, 5}), conv_transpose2d(x, w, {.dilation = 3})));
  CHECK(max(abs(view::slice(y, 2, {5}))).item() == 0);
}

TEST_CASE("convolutions match the reference values", "[conv][reference]") {
  const auto r = reference("conv");
  if (r.empty()) return;
  for (const bool single : {false, true}) {
    const double tolerance = single ? 1e-5 : 1e-10;
    const auto at = [&](const char* name) { return cast(r.at(name), single ? DType::f32 : DType::f64); };
    Tape tape;
    const Tensor x = tape.variable(at("x")), w = tape.variable(at("w")), b = tape.variable(at("b"));
    const Tensor y = conv2d(x, w, {.stride = 2, .padding = 1, .bias = b});
    const Gradients g = tape.backward(y, {.cotangent = at("cotangent")});
    CHECK(deviation(y, r.at("y")) <= tolerance);
    CHECK(deviation(g.of(x), r.at("dx")) <= tolerance);
    CHECK(deviation(g.of(w), r.at("dw")) <= tolerance);
    CHECK(deviation(g.of(b), r.at("db")) <= tolerance);
    const Tensor xt = tape.variable(at("xt")), wt = tape.variable(at("wt")), bt = tape.variable(at("bt"));
    const Tensor yt = conv_transpose2d(xt, wt, {.stride = 2, .padding = 1, .bias = bt});
    const Gradients gt = tape.backward(yt, {.cotangent = at("cotangent_t")});
    CHECK(deviation(yt, r.at("yt")) <= tolerance);
    CHECK(deviation(gt.of(xt), r.at("dxt")) <= tolerance);
    CHECK(deviation(gt.of(wt), r.at("dwt")) <= tolerance);
    CHECK(deviation(gt.of(bt), r.at("dbt")) <= tolerance);
  }
}

TEST_CASE("max_pool2d gives ties to the first, lets NaN win, and never picks the padding", "[conv][pool]") {
  const Tensor x = f64({{{{1, 3, 3, 0}, {3, 3, 3, 5}}}});
  const auto pool = [](const Tensor& t) { return max_pool2d(t, 2); };
  CHECK(equal(pool(x), f64({{{{3, 5}}}})));
  CHECK(equal(gradient(pool, x, f64({{{{2, 7}}}})), f64({{{{0, 2, 0, 0}, {0, 0, 0, 7}}}})));
  CHECK(equal(max_pool2d_index(x, 2), Tensor::from(std::vector<std::int64_t>{1, 7}, {1, 1, 1, 2})));
  const Tensor with_nan = f64({{{{1, not_a_number, 9, not_a_number}}}});
  const Tensor y = max_pool2d(with_nan, {1, 2});
  CHECK((std::isnan(y.at({0, 0, 0, 0})) && std::isnan(y.at({0, 0, 0, 1}))));
  CHECK(equal(gradient([](const Tensor& t) { return max_pool2d(t, {1, 4}); }, with_nan, f64({{{{1}}}})), f64({{{{0, 1, 0, 0}}}})));
  const Tensor below = Tensor::full({1, 1, 3, 3}, -2, DType::f64);
  CHECK(equal(max_pool2d(below, 2, {.padding = 1}), Tensor::full({1, 1, 2, 2}, -2, DType::f64)));
}

TEST_CASE("pools follow stride, dilation and padding", "[conv][pool]") {
  Tensor x = Tensor::zeros({1, 1, 3, 4}, DType::f64);
  for (index_t i = 0; i < 12; ++i) x.set({0, 0, i / 4, i % 4}, static_cast<double>(i));
  CHECK(equal(max_pool2d(x, 2, {.stride = 1}), f64({{{{5, 6, 7}, {9, 10, 11}}}})));
  CHECK(equal(max_pool2d(x, 2, {.stride = 1, .dilation = {2, 3}}), f64({{{{11}}}})));
  CHECK(equal(max_pool2d(x, 2, {.padding = 1}), f64({{{{0, 2, 3}, {8, 10, 11}}}})));
  CHECK(equal(avg_pool2d(x, 2, {.stride = {1, 2}}), f64({{{{2.5, 4.5}, {6.5, 8.5}}}})));
  CHECK(equal(avg_pool2d(x, 2, {.stride = 1, .dilation = {2, 3}}), f64({{{{5.5}}}})));
  CHECK(equal(avg_pool2d(x, 2, {.padding = 1}), f64({{{{0, 0.75, 0.75}, {3, 7.5, 4.5}}}})));
  CHECK(equal(avg_pool2d(x, 2, {.padding = 1, .count_include_pad = false}), f64({{{{0, 1.5, 3}, {6, 7.5, 9}}}})));
}

TEST_CASE("convolutions and pools refuse what does not fit", "[conv]") {
  const Tensor x = Tensor::ones({1, 4, 5, 5}), w = Tensor::ones({2, 4, 3, 3});
  CHECK_THROWS_AS(conv2d(Tensor::ones({4, 5, 5}), w), ShapeError);
  CHECK_THROWS_AS(conv2d(x, Tensor::ones({2, 3, 3, 3})), ShapeError);
  CHECK_THROWS_AS(conv2d(x, w, {.groups = 2}), ShapeError);
  CHECK_THROWS_AS(conv2d(x, w, {.groups = 3}), ShapeError);
  CHECK_THROWS_AS(conv2d(x, w, {.groups = 0}), ShapeError);
  CHECK_THROWS_AS(conv2d(x, w, {.dilation = 3}), ShapeError);
  CHECK_THROWS_AS(conv2d(x, w, {.stride = 0}), ValueError);
  CHECK_THROWS_AS(conv2d(x, w, {.padding = -1}), ValueError);
  CHECK_THROWS_AS(conv2d(x, w, {.dilation = index_t{1} << 62}), ValueError);
  CHECK_THROWS_AS(conv2d(x, w, {.bias = Tensor::ones({4})}), ShapeError);
  CHECK_THROWS_AS(conv2d(x, Tensor::ones({2, 4, 3, 3}, DType::f64)), DTypeError);
  CHECK(message_of([&] { (void)conv2d(x, Tensor::ones({2, 3, 3, 3})); }).find("(2, 3, 3, 3), not (2, 4, 3, 3)") != std::string::npos);
  const Tensor wt = Tensor::ones({4, 2, 3, 3});
  CHECK_THROWS_AS(conv_transpose2d(x, wt, {.output_padding = 1}), ValueError);
  CHECK_THROWS_AS(conv_transpose2d(x, wt, {.padding = 4}), ShapeError);
  CHECK_THROWS_AS(conv_transpose2d(x, wt, {.bias = Tensor::ones({4})}), ShapeError);
  CHECK_THROWS_AS(conv_transpose2d(x, Tensor::ones({2, 4, 3, 3})), ShapeError);
  CHECK_THROWS_AS(max_pool2d(x, 6), ShapeError);
  CHECK_THROWS_AS(max_pool2d(x, 2, {.padding = 2}), ShapeError);
  CHECK_THROWS_AS(avg_pool2d(x, 2, {.padding = 2}), ShapeError);
  CHECK_THROWS_AS(max_pool2d(x, 0), ValueError);
}
