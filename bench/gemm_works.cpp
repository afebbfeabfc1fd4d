// Matrix products as users write them.
#include "bench/work.hpp"
#include "engine/autograd/gradcheck.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/linear.hpp"
#include "engine/ops/matmul.hpp"

namespace gradus::bench {

namespace {

Work product(const std::string& name, const Shape& a, const Shape& b, DType dtype, bool transposed = false) {
  const double flop = 2.0 * static_cast<double>(numel(a)) * static_cast<double>(b[b.rank() - (transposed ? 2 : 1)]);
  return {name,
          [=] {
            return forward({random_normal(a, dtype, 1), random_normal(b, dtype, 2)},
                           [transposed](std::span<const Tensor> t) { return matmul(t[0], transposed ? transpose(t[1]) : t[1]); });
          },
          flop, dtype == DType::f64};
}

Work linear_gelu(index_t rows, index_t in, index_t out) {
  return {cat("linear_gelu/", rows, "x", in, "x", out, "/forward_backward"),
          [=] {
            return forward_backward({random_normal({rows, in}, DType::f32, 1), random_normal({out, in}, DType::f32, 2), random_normal({out}, DType::f32, 3)},
                                    [](std::span<const Tensor> t) { return linear(t[0], t[1], {.bias = t[2], .activation = Activation::gelu}); });
          },
          6.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out)};
}

}  // namespace

std::vector<Work> gemm_works() {
  std::vector<Work> works;
  for (const DType dtype : {DType::f32, DType::f64})
    for (const index_t n : {64, 128, 256, 512, 1024, 2048}) works.push_back(product(cat("gemm/", name_of(dtype), "/", n), {n, n}, {n, n}, dtype));
  works.push_back(product("bmm/64x128x64x128t", {64, 128, 64}, {64, 128, 64}, DType::f32, true));
  works.push_back(product("bmm/64x128x128x64", {64, 128, 128}, {64, 128, 64}, DType::f32));
  works.push_back(product("bmm/64x512x64x512t", {64, 512, 64}, {64, 512, 64}, DType::f32, true));
  works.push_back(product("bmm/64x512x512x64", {64, 512, 512}, {64, 512, 64}, DType::f32));
  works.push_back(product("bmm/256x100x10x10", {256, 100, 10}, {256, 10, 10}, DType::f32));
  works.push_back(product("bmm/64x1000x16x16", {64, 1000, 16}, {64, 16, 16}, DType::f32));
  works.push_back(linear_gelu(4096, 768, 3072));
  return works;
}

}  // namespace gradus::bench
