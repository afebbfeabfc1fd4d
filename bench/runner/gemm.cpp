// Matrix products, by the kernel itself.
#include "bench/runner/work.hpp"
#include "engine/autograd/gradcheck.hpp"
#include "engine/kernels/kernels.hpp"

namespace gradus::bench {
namespace {

template <class T>
Work product(const Words& w) {
  const index_t m = w.number(1), n = w.number(2), k = w.number(3), a_transposed = w.number(4), b_transposed = w.number(5), batch = w.number(6);
  const DType dtype = sizeof(T) == 4 ? DType::f32 : DType::f64;
  const Tensor a = random_normal({batch, m, k}, dtype, 1), b = random_normal({batch, k, n}, dtype, 2);
  Tensor c = Tensor::zeros({batch, m, n}, dtype);
  return [=]() mutable {
    kernels::active<T>().gemm.gemm({.m = m,
                                    .n = n,
                                    .k = k,
                                    .a = a.data<T>(),
                                    .a_row = a_transposed ? 1 : k,
                                    .a_col = a_transposed ? m : 1,
                                    .b = b.data<T>(),
                                    .b_row = b_transposed ? 1 : n,
                                    .b_col = b_transposed ? k : 1,
                                    .c = c.mutable_data<T>(),
                                    .c_row = n,
                                    .batch = batch,
                                    .a_batch = m * k,
                                    .b_batch = k * n,
                                    .c_batch = m * n});
  };
}

}  // namespace

std::vector<Kind> gemm_kinds() {
  return {
      {"gemm", "f32|f64 M N K A-TRANSPOSED B-TRANSPOSED BATCH", [](const Words& w) { return w.text(0) == "f32" ? product<float>(w) : product<double>(w); }}};
}

}  // namespace gradus::bench
