#include "engine/autograd/derivatives.hpp"

#include <cmath>

#include "engine/autograd/gradcheck.hpp"
#include "engine/tensor/view.hpp"

namespace gradus {
namespace {

using Tensors = std::vector<Tensor>;

// A function's value on a tape of its own, and its floating inputs as variables there.
struct Taped {
  Taped(const TensorFunction& f, std::span<const Tensor> inputs, const char* where) {
    Tensors on_tape;
    for (const Tensor& x : inputs) {
      if (is_floating(x.dtype())) variables.push_back(on_tape.emplace_back(tape.variable(x.detached())));
      else on_tape.push_back(tape.input(x.detached()));
    }
    if (variables.empty()) throw ValueError(where, "no floating-point input", "there is nothing to differentiate by");
    value = f(on_tape);
  }

  [[nodiscard]] index_t size() const {
    index_t count = 0;
    for (const Tensor& x : variables) count += x.numel();
    return count;
  }

  Tape tape;
  Tensors variables;
  Tensor value;
};

void require_like(const Tensors& variables, std::span<const Tensor> direction, const char* where) {
  if (direction.size() != variables.size())
    throw ValueError(where, cat(direction.size(), " directions for ", variables.size(), " floating inputs"), "give one for each");
  for (std::size_t i = 0; i < variables.size(); ++i)
    if (direction[i].shape() != variables[i].shape() || direction[i].dtype() != variables[i].dtype())
      throw ShapeError(where,
                       cat("direction ", i, " is ", name_of(direction[i].dtype()), ' ', direction[i].shape(), ", the input ", name_of(variables[i].dtype()),
                           ' ', variables[i].shape()),
                       "they must agree");
}

Tensors zeros_like(const Tensors& tensors) {
  Tensors zeros;
  for (const Tensor& x : tensors) zeros.push_back(Tensor::zeros(x.shape(), x.dtype()));
  return zeros;
}

Tensors detached(Tensors tensors) {
  for (Tensor& x : tensors) x = x.detached();
  return tensors;
}

// sum_i J_i^T u_i over those y_i that depend on a variable at all.
Tensors pull_back(Taped& taped, const Tensors& ys, std::span<const Tensor> cotangents, const Tensors& variables) {
  Tensors dependent, seeds;
  for (std::size_t i = 0; i < ys.size(); ++i)
    if (taped.tape.differentiable(ys[i])) {
      dependent.push_back(ys[i]);
      seeds.push_back(cotangents[i]);
    }
  if (dependent.empty()) return zeros_like(variables);
  const Gradients gradients = taped.tape.backward(dependent, seeds);
  Tensors result;
  for (const Tensor& x : variables) result.push_back(gradients.of(x).detached());
  return result;
}

// H v for any number of v: the gradient is recorded once.
class Hessian {
 public:
  Hessian(const TensorFunction& f, std::span<const Tensor> inputs, const char* where) : taped_(f, inputs, where) {
    if (taped_.value.numel() != 1) throw ShapeError(where, cat("f has shape ", taped_.value.shape()), "its value must be one number");
    if (!taped_.tape.differentiable(taped_.value)) return;
    gradients_ = grad(taped_.tape, taped_.value, taped_.variables, {.record = true});
  }

  [[nodiscard]] const Tensors& variables() const { return taped_.variables; }
  [[nodiscard]] index_t size() const { return taped_.size(); }
  [[nodiscard]] Tensors times(std::span<const Tensor> v) {
    return gradients_.empty() ? zeros_like(variables()) : pull_back(taped_, gradients_, v, variables());
  }

  // The same on one flat vector.
  [[nodiscard]] std::vector<double> times(const std::vector<double>& v);

 private:
  Taped taped_;
  Tensors gradients_;
};

template <class F>
void each_element(const Tensor& t, F&& f) {
  const Tensor x = contiguous(t);
  visit_floating(x.dtype(), "derivatives", [&](auto tag) {
    const auto* from = x.data<decltype(tag)>();
    for (index_t i = 0; i < x.numel(); ++i) f(static_cast<double>(from[i]));
  });
}

std::vector<double> flatten(const Tensors& tensors) {
  std::vector<double> flat;
  for (const Tensor& t : tensors) each_element(t, [&](double value) { flat.push_back(value); });
  return flat;
}

Tensors shape_like(const std::vector<double>& flat, const Tensors& like) {
  Tensors tensors;
  std::size_t next = 0;
  for (const Tensor& x : like) {
    Tensor t = Tensor::empty(x.shape(), x.dtype());
    visit_floating(x.dtype(), "derivatives", [&](auto tag) {
      using T = decltype(tag);
      T* to = t.mutable_data<T>();
      for (index_t i = 0; i < t.numel(); ++i) to[i] = static_cast<T>(flat[next++]);
    });
    tensors.push_back(t);
  }
  return tensors;
}

std::vector<double> Hessian::times(const std::vector<double>& v) { return flatten(times(shape_like(v, variables()))); }

// Row r of a matrix of the inputs' dtype.
void set_row(Tensor& matrix, index_t r, const std::vector<double>& row) {
  visit_floating(matrix.dtype(), "derivatives", [&](auto tag) {
    using T = decltype(tag);
    T* to = matrix.mutable_data<T>() + r * matrix.shape()[1];
    for (std::size_t i = 0; i < row.size(); ++i) to[i] = static_cast<T>(row[i]);
  });
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

void add_scaled(std::vector<double>& a, double factor, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
}

void scale(std::vector<double>& a, double factor) {
  for (double& x : a) x *= factor;
}

// Eigenvalues of the symmetric tridiagonal matrix (diagonal, off) by implicit QL, each with the last entry of its unit eigenvector:
// that entry times the next off-diagonal number is the residual of the Ritz pair.
struct Tridiagonal {
  std::vector<double> values, last_entries;
};
Tridiagonal eigen(std::vector<double> d, std::vector<double> e) {
  const std::size_t n = d.size();
  e.resize(n, 0.0);
  std::vector<double> z(n, 0.0);
  z[n - 1] = 1;
  for (std::size_t l = 0; l < n; ++l) {
    for (int sweep = 0; sweep < 100; ++sweep) {
      std::size_t m = l;
      while (m + 1 < n && std::fabs(e[m]) > 1e-16 * (std::fabs(d[m]) + std::fabs(d[m + 1]))) ++m;
      if (m == l) break;
      double g = (d[l + 1] - d[l]) / (2 * e[l]);
      g = d[m] - d[l] + e[l] / (g + std::copysign(std::hypot(g, 1.0), g));
      double s = 1, c = 1, p = 0;
      for (std::size_t i = m; i-- > l;) {
        const double f = s * e[i], b = c * e[i], r = std::hypot(f, g);
        e[i + 1] = r;
        s = r == 0 ? 0 : f / r;
        c = r == 0 ? 1 : g / r;
        const double moved = d[i + 1] - p, t = (d[i] - moved) * s + 2 * c * b;
        p = s * t;
        d[i + 1] = moved + p;
        g = c * t - b;
        const double upper = z[i + 1];
        z[i + 1] = s * z[i] + c * upper;
        z[i] = c * z[i] - s * upper;
      }
      d[l] -= p;
      e[l] = g;
      e[m] = 0;
    }
  }
  return {d, z};
}

Spectrum ends_of(const Tridiagonal& pairs, double next_off) {
  std::size_t low = 0, high = 0;
  for (std::size_t i = 0; i < pairs.values.size(); ++i) {
    if (pairs.values[i] < pairs.values[low]) low = i;
    if (pairs.values[i] > pairs.values[high]) high = i;
  }
  return {pairs.values[low], pairs.values[high], std::fabs(next_off * pairs.last_entries[low]), std::fabs(next_off * pairs.last_entries[high]),
          static_cast<int>(pairs.values.size())};
}

}  // namespace

std::vector<Tensor> grad(Tape& tape, const Tensor& y, std::span<const Tensor> inputs, const BackwardOptions& options) {
  const Gradients gradients = tape.backward(y, options);
  Tensors result;
  for (const Tensor& x : inputs) result.push_back(gradients.of(x));
  return result;
}

// J^T u is linear in u, so its own pull-back along v is J v.
Tensor jvp(const TensorFunction& f, std::span<const Tensor> inputs, std::span<const Tensor> direction) {
  Taped taped(f, inputs, "jvp");
  require_like(taped.variables, direction, "jvp");
  const Tensor& y = taped.value;
  if (!taped.tape.differentiable(y)) return Tensor::zeros(y.shape(), y.dtype());
  const Tensor u = taped.tape.variable(Tensor::zeros(y.shape(), y.dtype()));
  const Tensors pulled = grad(taped.tape, y, taped.variables, {.record = true, .cotangent = u});
  return pull_back(taped, pulled, direction, {u})[0];
}

std::vector<Tensor> vjp(const TensorFunction& f, std::span<const Tensor> inputs, const Tensor& cotangent) {
  Taped taped(f, inputs, "vjp");
  if (!taped.tape.differentiable(taped.value)) return zeros_like(taped.variables);
  return detached(grad(taped.tape, taped.value, taped.variables, {.cotangent = cotangent}));
}

std::vector<Tensor> hvp(const TensorFunction& f, std::span<const Tensor> inputs, std::span<const Tensor> direction) {
  Hessian hessian(f, inputs, "hvp");
  require_like(hessian.variables(), direction, "hvp");
  return hessian.times(direction);
}

Tensor jacobian(const TensorFunction& f, std::span<const Tensor> inputs) {
  Taped taped(f, inputs, "jacobian");
  const Tensor& y = taped.value;
  Tensor matrix = Tensor::zeros({y.numel(), taped.size()}, taped.variables[0].dtype());
  if (!taped.tape.differentiable(y)) return matrix;
  for (index_t r = 0; r < y.numel(); ++r) {
    std::vector<double> unit(static_cast<std::size_t>(y.numel()), 0.0);
    unit[static_cast<std::size_t>(r)] = 1;
    const Tensors seed = shape_like(unit, {y.detached()});
    set_row(matrix, r, flatten(detached(grad(taped.tape, y, taped.variables, {.cotangent = seed[0]}))));
  }
  return matrix;
}

Tensor hessian(const TensorFunction& f, std::span<const Tensor> inputs) {
  Hessian operation(f, inputs, "hessian");
  const index_t n = operation.size();
  Tensor matrix = Tensor::zeros({n, n}, operation.variables()[0].dtype());
  for (index_t r = 0; r < n; ++r) {
    std::vector<double> unit(static_cast<std::size_t>(n), 0.0);
    unit[static_cast<std::size_t>(r)] = 1;
    set_row(matrix, r, operation.times(unit));
  }
  return matrix;
}

Spectrum hessian_spectrum(const TensorFunction& f, std::span<const Tensor> inputs, const SpectrumOptions& options) {
  if (options.iterations < 1) throw ValueError("hessian_spectrum", cat(options.iterations, " iterations"), "give at least 1");
  Hessian operation(f, inputs, "hessian_spectrum");
  const index_t n = operation.size();
  if (n == 0) throw ShapeError("hessian_spectrum", "the inputs are empty", "an empty matrix has no eigenvalues");
  std::vector<std::vector<double>> basis{random_normal({n}, DType::f64, options.seed).to_vector<double>()};
  scale(basis[0], 1 / std::sqrt(dot(basis[0], basis[0])));
  std::vector<double> diagonal, off;
  Spectrum ends;
  for (int i = 0; i < options.iterations && i < n; ++i) {
    std::vector<double> w = operation.times(basis.back());
    diagonal.push_back(dot(w, basis.back()));
    // Twice: rounding in the first pass leaves parts of the old directions, and with them copies of eigenvalues.
    for (int pass = 0; pass < 2; ++pass)
      for (const auto& q : basis) add_scaled(w, -dot(w, q), q);
    const double next = std::sqrt(dot(w, w));
    ends = ends_of(eigen(diagonal, off), next);
    const double size = std::max(std::fabs(ends.smallest), std::fabs(ends.largest));
    if (std::max(ends.smallest_residual, ends.largest_residual) <= options.tolerance * size || next <= 1e-14 * size || next == 0) break;
    off.push_back(next);
    scale(w, 1 / next);
    basis.push_back(std::move(w));
  }
  return ends;
}

}  // namespace gradus
