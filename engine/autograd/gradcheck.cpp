#include "engine/autograd/gradcheck.hpp"

#include <algorithm>
#include <cmath>

#include "engine/core/random.hpp"
#include "engine/tensor/view.hpp"

namespace gradus {
namespace {

using Tensors = std::vector<Tensor>;

double dot(const Tensor& a, const Tensor& b) {
  const Tensor x = contiguous(a), y = contiguous(b);
  const double *p = x.data<double>(), *q = y.data<double>();
  double total = 0;
  for (index_t i = 0; i < x.numel(); ++i) total += p[i] * q[i];
  return total;
}

// Variables for floating inputs, constants for the others.
Tensors put_on(Tape& tape, std::span<const Tensor> inputs) {
  Tensors on_tape;
  for (const Tensor& x : inputs) on_tape.push_back(is_floating(x.dtype()) ? tape.variable(x) : tape.input(x));
  return on_tape;
}

// f on a tape of its own, as its gradient is taken: random ops draw by their place on it.
Tensor value_of(const TensorFunction& f, std::span<const Tensor> inputs) {
  Tape tape;
  return f(put_on(tape, inputs)).detached();
}

// Fourth-order central difference of a number with respect to one element.
double difference(const std::function<double(std::span<const Tensor>)>& f, Tensors& inputs, std::size_t input, index_t element) {
  const Tensor original = inputs[input];
  const double at = original.data<double>()[element];
  constexpr double step = 1e-3;  // truncation about step^4, rounding about 1e-16 |f| / step
  const auto shifted = [&](double by) {
    Tensor moved = copy(original);
    moved.mutable_data<double>()[element] = at + by;
    inputs[input] = moved;
    const double value = f(inputs);
    inputs[input] = original;
    return value;
  };
  const double near = shifted(step) - shifted(-step), far = shifted(2 * step) - shifted(-2 * step);
  return (8 * near - far) / (12 * step);
}

GradcheckResult compare(const std::function<double(std::span<const Tensor>)>& f, Tensors inputs, const Tensors& gradients, double tolerance) {
  GradcheckResult result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(inputs[i].dtype())) continue;
    const Tensor gradient = contiguous(gradients[i]);
    for (index_t e = 0; e < inputs[i].numel(); ++e) {
      const double numeric = difference(f, inputs, i, e), analytic = gradient.data<double>()[e];
      const double error = std::fabs(analytic - numeric) / std::max(1.0, std::fabs(numeric));
      if (error <= result.worst) continue;
      result = {error <= tolerance, error, static_cast<int>(i), e, analytic, numeric};
      if (std::isnan(error)) return result;
    }
  }
  return result;
}

Tensors contiguous_f64(std::span<const Tensor> inputs) {
  Tensors copies;
  for (const Tensor& x : inputs) {
    if (x.dtype() == DType::f32) throw DTypeError("gradcheck", "an input is f32", "finite differences need f64");
    copies.push_back(copy(x));
  }
  return copies;
}

// Gradients of f(inputs) . cotangent, off any tape; by the fused rules where there are any.
Tensors first_gradients(const TensorFunction& f, std::span<const Tensor> inputs, const Tensor& cotangent) {
  Tape tape;
  const Tensors x = put_on(tape, inputs);
  const Tensor y = f(x);
  Tensors result;
  const bool flows = tape.differentiable(y);
  const Gradients gradients = flows ? tape.backward(y, {.cotangent = cotangent}) : Gradients();
  for (const Tensor& t : x) {
    if (!is_floating(t.dtype())) result.emplace_back();
    else result.push_back(flows ? gradients.of(t).detached() : Tensor::zeros(t.shape(), t.dtype()));
  }
  return result;
}

}  // namespace

std::string GradcheckResult::describe() const {
  if (input < 0) return "exact";
  return cat("worst relative error ", worst, " at input ", input, ", element ", element, ": analytic ", analytic, ", numeric ", numeric);
}

GradcheckResult gradcheck(const TensorFunction& f, std::span<const Tensor> inputs, const GradcheckOptions& options) {
  const Tensors x = contiguous_f64(inputs);
  const Tensor cotangent = random_normal(f(x).shape(), DType::f64, options.seed);
  return compare([&](std::span<const Tensor> at) { return dot(value_of(f, at), cotangent); }, x, first_gradients(f, x, cotangent), options.tolerance);
}

GradcheckResult gradcheck_second(const TensorFunction& f, std::span<const Tensor> inputs, const GradcheckOptions& options) {
  const Tensors x = contiguous_f64(inputs);
  const Tensor cotangent = random_normal(f(x).shape(), DType::f64, options.seed);
  Tensors directions, second;
  for (std::size_t i = 0; i < x.size(); ++i) directions.push_back(random_normal(x[i].shape(), DType::f64, options.seed, i + 1));
  Tape tape;
  const Tensors on_tape = put_on(tape, x);
  const Tensor y = f(on_tape);
  for (const Tensor& t : x) second.push_back(is_floating(t.dtype()) ? Tensor::zeros(t.shape(), t.dtype()) : Tensor());
  if (tape.differentiable(y)) {
    const Gradients first = tape.backward(y, {.record = true, .cotangent = cotangent});
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!is_floating(x[i].dtype())) continue;
      const Tensor gradient = first.of(on_tape[i]);
      if (!tape.differentiable(gradient)) continue;
      const Gradients again = tape.backward(gradient, {.cotangent = directions[i]});
      for (std::size_t j = 0; j < x.size(); ++j)
        if (is_floating(x[j].dtype())) {
          Tensor& total = second[j];
          const Tensor part = contiguous(again.of(on_tape[j]).detached());
          for (index_t e = 0; e < total.numel(); ++e) total.mutable_data<double>()[e] += part.data<double>()[e];
        }
    }
  }
  const auto projected_gradient = [&](std::span<const Tensor> at) {
    double total = 0;
    const Tensors gradients = first_gradients(f, at, cotangent);
    for (std::size_t i = 0; i < at.size(); ++i)
      if (is_floating(at[i].dtype())) total += dot(gradients[i], directions[i]);
    return total;
  };
  return compare(projected_gradient, x, second, options.tolerance);
}

Tensor random_normal(const Shape& shape, DType dtype, std::uint64_t seed, std::uint64_t stream) {
  Tensor t = Tensor::empty(shape, dtype);
  visit_floating(dtype, "random_normal", [&](auto tag) {
    using T = decltype(tag);
    Random(seed, stream).fill_normal(std::span<T>(t.mutable_data<T>(), static_cast<std::size_t>(t.numel())));
  });
  return t;
}

Tensor random_uniform(const Shape& shape, DType dtype, double low, double high, std::uint64_t seed, std::uint64_t stream) {
  Tensor t = Tensor::empty(shape, dtype);
  visit_floating(dtype, "random_uniform", [&](auto tag) {
    using T = decltype(tag);
    T* out = t.mutable_data<T>();
    Random(seed, stream).fill_uniform(std::span<T>(out, static_cast<std::size_t>(t.numel())));
    for (index_t i = 0; i < t.numel(); ++i) out[i] = static_cast<T>(low + (high - low) * static_cast<double>(out[i]));
  });
  return t;
}

}  // namespace gradus
