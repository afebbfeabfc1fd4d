#include "models/parity/model.hpp"

#include <cmath>
#include <limits>
#include <numbers>

#include "engine/core/text.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/normalize.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus::parity {
namespace {

void require_two_heads(const Problem& problem) {
  if (problem.heads() != 2)
    throw ValueError("parity", cat("the population loss of ", problem.heads(), " heads"), "its closed form is that of two; use samples for others");
}

double dot(const double* a, const double* b, index_t n) {
  double total = 0;
  for (index_t i = 0; i < n; ++i) total += a[i] * b[i];
  return total;
}

// dL/du for the head u beside the other head v.
void slope(const Problem& problem, const double* u, const double* v, double* g) {
  const index_t d = problem.bits(), a = problem.support[0], b = problem.support[1];
  const double v_squared = dot(v, v, d), both = dot(u, v, d);
  for (index_t i = 0; i < d; ++i) g[i] = 2 * u[i] * v_squared + 4 * both * v[i] - 4 * u[i] * v[i] * v[i];
  g[a] -= 2 * v[b];
  g[b] -= 2 * v[a];
}

// Through the map: dL/dz for z = V theta.
void through_map(Attention attention, const double* z, const double* gamma, index_t d, double* g) {
  switch (attention) {
    case Attention::softmax: {
      const double mean = dot(gamma, g, d);
      for (index_t i = 0; i < d; ++i) g[i] = gamma[i] * (g[i] - mean);
      return;
    }
    case Attention::linear: return;
    case Attention::erf:
      for (index_t i = 0; i < d; ++i) g[i] *= 2 * std::numbers::inv_sqrtpi * std::exp(-z[i] * z[i]);
      return;
  }
}

}  // namespace

Tensor attention_of(const Problem& problem, const Tensor& queries, Attention attention) {
  const Tensor z = matmul(queries, transpose(problem.positions));
  switch (attention) {
    case Attention::softmax: return softmax(z);
    case Attention::linear: return z;
    case Attention::erf: return erf(z);
  }
  throw ValueError("parity", "no such attention", "use one of the enumeration");
}

Tensor population_loss(const Problem& problem, const Tensor& gamma) {
  require_two_heads(problem);
  const Tensor u = select(gamma, 0, 0), v = select(gamma, 0, 1);
  const auto at = [](const Tensor& w, index_t i) { return select(w, 0, i); };
  const index_t a = problem.support[0], b = problem.support[1];
  return sum(square(u)) * sum(square(v)) + 2.0 * square(sum(u * v)) - 2.0 * sum(square(u) * square(v)) - 2.0 * (at(u, a) * at(v, b) + at(u, b) * at(v, a)) +
         1.0;
}

Population population(const Problem& problem, const Tensor& queries, Attention attention) {
  require_two_heads(problem);
  const index_t d = problem.bits();
  const Tensor z = matmul(queries.detached(), transpose(problem.positions)), gamma = attention_of(problem, queries.detached(), attention);
  Tensor g = Tensor::empty({2, d}, DType::f64);
  const double *u = gamma.data<double>(), *v = u + d;
  double* to = g.mutable_data<double>();
  slope(problem, u, v, to);
  slope(problem, v, u, to + d);
  const index_t a = problem.support[0], b = problem.support[1];
  double fourth = 0;
  for (index_t i = 0; i < d; ++i) fourth += u[i] * u[i] * v[i] * v[i];
  const double both = dot(u, v, d), loss = dot(u, u, d) * dot(v, v, d) + 2 * both * both - 2 * fourth - 2 * (u[a] * v[b] + u[b] * v[a]) + 1;
  for (index_t h = 0; h < 2; ++h) through_map(attention, z.data<double>() + h * d, u + h * d, d, to + h * d);
  return {loss, gamma, matmul(g, problem.positions)};
}

Reading read_attention(const Problem& problem, const Tensor& gamma) {
  const index_t d = problem.bits(), heads = problem.heads();
  Reading reading;
  double worst = 1;
  std::vector<bool> taken(static_cast<std::size_t>(heads));
  index_t distinct = 0;
  for (index_t h = 0; h < heads; ++h) {
    const double* w = gamma.data<double>() + h * d;
    index_t chosen = 0;
    for (index_t i = 1; i < d; ++i)
      if (std::fabs(w[i]) > std::fabs(w[chosen])) chosen = i;
    double all = 0;
    for (index_t i = 0; i < d; ++i) all += i == chosen ? 0 : std::fabs(w[i]);
    reading.chosen.push_back(chosen);
    for (std::size_t k = 0; k < problem.support.size(); ++k) {
      reading.masses.push_back(w[problem.support[k]]);
      if (problem.support[k] == chosen && !taken[k]) {
        taken[k] = true;
        ++distinct;
      }
    }
    worst *= 1 + std::fabs(w[chosen] - 1) + all;
  }
  reading.specialised = distinct == heads;
  reading.worst_case_loss = reading.specialised ? (worst - 1) * (worst - 1) : std::numeric_limits<double>::infinity();
  return reading;
}

}  // namespace gradus::parity
