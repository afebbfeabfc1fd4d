// Elementwise drivers.
#include <cmath>

#include "engine/tensor/compute.hpp"
#include "engine/tensor/strided.hpp"
#include "engine/tensor/view.hpp"

namespace gradus::compute {
namespace {

// The operand as kernels take it: broadcast to `shape`, with an innermost step of 0 or 1.
Tensor prepare(const Tensor& t, const Shape& shape) {
  const auto inner_step_fits = [](const Tensor& x) {
    for (int axis = x.rank() - 1; axis >= 0; --axis)
      if (x.shape()[axis] != 1) return x.strides()[axis] == 1 || x.strides()[axis] == 0;
    return true;
  };
  return view::expand(inner_step_fits(t) ? t : copy(t), shape);
}

bool same_contiguous(const Tensor& t, const Shape& shape) { return t.shape() == shape && t.is_contiguous(); }

// Calls f(out_offset, offsets, steps, count) over runs, in parallel; out is contiguous, every step is 0 or 1.
template <std::size_t N, class F>
void for_runs(const Shape& shape, const std::array<Tensor, N>& operands, F&& f) {
  std::array<Strides, N + 1> strides;
  strides[N] = contiguous_strides(shape);
  for (std::size_t i = 0; i < N; ++i) strides[i] = operands[i].strides();
  const StridedLoop<N + 1> loop(shape, strides);
  std::array<index_t, N> steps;
  for (std::size_t i = 0; i < N; ++i) steps[i] = loop.step(i);
  const index_t runs = loop.runs(), run = loop.run();
  if (runs == 1) {
    parallel_for(run, elementwise_grain, [&](index_t begin, index_t end) {
      auto at = loop.start(0);
      for (std::size_t i = 0; i < N; ++i) at[i] += begin * steps[i];
      f(at[N] + begin, at, steps, end - begin);
    });
  } else if (runs > 0) {
    const index_t grain = std::max<index_t>(1, elementwise_grain / std::max<index_t>(run, 1));
    parallel_for(runs, grain, [&](index_t begin, index_t end) { loop.each_run(begin, end, [&](const auto& at) { f(at[N], at, steps, run); }); });
  }
}

// Plain loops serve the integer and bool cases: indices and masks are never the hot path.
template <class A, class B, class F>
void scalar_binary(const Tensor& a, const Tensor& b, Tensor& out, F&& f) {
  const A* x = a.data<A>();
  const A* y = b.data<A>();
  B* z = out.mutable_data<B>();
  for_runs<2>(out.shape(), {a, b}, [&](index_t to, const auto& at, const auto& steps, index_t n) {
    for (index_t i = 0; i < n; ++i) z[to + i] = f(x[at[0] + i * steps[0]], y[at[1] + i * steps[1]]);
  });
}

std::int64_t integer_binary(kernels::Binary op, std::int64_t x, std::int64_t y) {
  // Wraps on overflow like the hardware, through unsigned arithmetic.
  const auto a = static_cast<std::uint64_t>(x), b = static_cast<std::uint64_t>(y);
  switch (op) {
    case kernels::Binary::add: return static_cast<std::int64_t>(a + b);
    case kernels::Binary::sub: return static_cast<std::int64_t>(a - b);
    case kernels::Binary::mul: return static_cast<std::int64_t>(a * b);
    case kernels::Binary::minimum: return x < y ? x : y;
    case kernels::Binary::maximum: return x < y ? y : x;
    default: throw DTypeError(kernels::name_of(op), "not defined on i64", "cast to f32 or f64");
  }
}

template <class T>
bool compare_scalars(kernels::Compare op, T x, T y) {
  switch (op) {
    case kernels::Compare::equal: return x == y;
    case kernels::Compare::not_equal: return x != y;
    case kernels::Compare::less: return x < y;
    case kernels::Compare::less_equal: return x <= y;
    case kernels::Compare::greater: return x > y;
    default: return x >= y;
  }
}

}  // namespace

void unary(kernels::Unary op, const Tensor& x, Tensor& out) {
  if (!x.is_contiguous()) return unary(op, copy(x), out);
  visit_floating(x.dtype(), kernels::name_of(op), [&](auto tag) {
    using T = decltype(tag);
    const auto kernel = kernels::active<T>().elementwise.unary[static_cast<std::size_t>(op)];
    const T* from = x.data<T>();
    T* to = out.mutable_data<T>();
    parallel_for(x.numel(), elementwise_grain, [&](index_t begin, index_t end) { kernel(from + begin, to + begin, end - begin); });
  });
}

void binary(kernels::Binary op, const Tensor& a, const Tensor& b, Tensor& out) {
  if (a.dtype() == DType::i64) {
    scalar_binary<std::int64_t, std::int64_t>(prepare(a, out.shape()), prepare(b, out.shape()), out,
                                              [op](std::int64_t x, std::int64_t y) { return integer_binary(op, x, y); });
    return;
  }
  visit_floating(a.dtype(), kernels::name_of(op), [&](auto tag) {
    using T = decltype(tag);
    const auto kernel = kernels::active<T>().elementwise.binary[static_cast<std::size_t>(op)];
    T* z = out.mutable_data<T>();
    if (same_contiguous(a, out.shape()) && same_contiguous(b, out.shape())) {
      const T *x = a.data<T>(), *y = b.data<T>();
      parallel_for(out.numel(), elementwise_grain, [&](index_t i, index_t end) { kernel(x + i, 1, y + i, 1, z + i, end - i); });
      return;
    }
    const std::array<Tensor, 2> in{prepare(a, out.shape()), prepare(b, out.shape())};
    const T *x = in[0].template data<T>(), *y = in[1].template data<T>();
    for_runs<2>(out.shape(), in,
                [&](index_t to, const auto& at, const auto& steps, index_t n) { kernel(x + at[0], steps[0], y + at[1], steps[1], z + to, n); });
  });
}

void compare(kernels::Compare op, const Tensor& a, const Tensor& b, Tensor& out) {
  const std::array<Tensor, 2> in{prepare(a, out.shape()), prepare(b, out.shape())};
  visit_dtype(a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    if constexpr (std::is_floating_point_v<T>) {
      const auto kernel = kernels::active<T>().elementwise.compare[static_cast<std::size_t>(op)];
      const T *x = in[0].template data<T>(), *y = in[1].template data<T>();
      auto* z = reinterpret_cast<std::uint8_t*>(out.mutable_data<bool>());
      for_runs<2>(out.shape(), in,
                  [&](index_t to, const auto& at, const auto& steps, index_t n) { kernel(x + at[0], steps[0], y + at[1], steps[1], z + to, n); });
    } else {
      scalar_binary<T, bool>(in[0], in[1], out, [op](T x, T y) { return compare_scalars(op, x, y); });
    }
  });
}

void select(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out) {
  const std::array<Tensor, 3> in{prepare(condition, out.shape()), prepare(a, out.shape()), prepare(b, out.shape())};
  const auto* c = reinterpret_cast<const std::uint8_t*>(in[0].data<bool>());
  visit_dtype(a.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T *x = in[1].template data<T>(), *y = in[2].template data<T>();
    T* z = out.mutable_data<T>();
    for_runs<3>(out.shape(), in, [&](index_t to, const auto& at, const auto& steps, index_t n) {
      if constexpr (std::is_floating_point_v<T>) {
        kernels::active<T>().elementwise.select(c + at[0], steps[0], x + at[1], steps[1], y + at[2], steps[2], z + to, n);
      } else {
        for (index_t i = 0; i < n; ++i) z[to + i] = c[at[0] + i * steps[0]] ? x[at[1] + i * steps[1]] : y[at[2] + i * steps[2]];
      }
    });
  });
}

void cast(const Tensor& x, Tensor& out) {
  const Tensor in = contiguous(x);
  visit_dtype(x.dtype(), [&](auto from_tag) {
    using From = decltype(from_tag);
    visit_dtype(out.dtype(), [&](auto to_tag) {
      using To = decltype(to_tag);
      const From* from = in.data<From>();
      To* to = out.mutable_data<To>();
      parallel_for(in.numel(), elementwise_grain, [&](index_t begin, index_t end) {
        for (index_t i = begin; i < end; ++i) {
          if constexpr (std::is_floating_point_v<From> && std::is_same_v<To, std::int64_t>) {
            if (!(from[i] >= From(-9223372036854775808.0) && from[i] < From(9223372036854775808.0)))
              throw ValueError("cast", cat("element ", i, " is ", from[i], ", which does not fit i64"), "clamp it first");
          }
          to[i] = static_cast<To>(from[i]);
        }
      });
    });
  });
}

}  // namespace gradus::compute
