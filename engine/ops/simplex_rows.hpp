#pragma once
// Rows of weights on the simplex, zero below a threshold: rows shifted by their maximum, in double whatever the dtype, since
// thresholds of float rows would lose the small weights. For engine/ops only.

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/core/memory.hpp"
#include "engine/kernels/kernels.hpp"

namespace gradus::define {

using Numbers = std::vector<double, PoolAllocator<double>>;

// y = x^exponent by the kernels, so that the bits are the same on every instruction set with fma.
inline void power(const double* x, double exponent, double* y, index_t n) {
  kernels::active<double>().elementwise.binary[static_cast<std::size_t>(kernels::Binary::pow)](x, 1, &exponent, 0, y, n);
}
inline double power(double x, double exponent) {
  double y = 0;
  power(&x, exponent, &y, 1);
  return y;
}

// The entries of a row that can weigh anything: those less than 1 below the largest, which is shifted to 0.
struct Candidates {
  explicit Candidates(index_t n) : z(static_cast<std::size_t>(n)), excess(z), weight(z), place(z.size()) {}
  Numbers z, excess, weight;
  std::vector<index_t, PoolAllocator<index_t>> place;
  index_t count = 0;

  // excess = [z - tau]_+
  void exceed(double tau) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) excess[i] = std::max(z[i] - tau, 0.0);
  }
};

inline double sum_of(const Numbers& numbers, index_t count) {
  double total = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) total += numbers[i];
  return total;
}

// Calls weigh(candidates) for every row, then normalises what it left in `weight`.
template <class T, class F>
void sparse_rows(const T* x, T* y, index_t rows, index_t n, double factor, F&& weigh) {
  constexpr double infinity = std::numeric_limits<double>::infinity(), not_a_number = std::numeric_limits<double>::quiet_NaN();
  Candidates c(n);
  for (index_t row = 0; row < rows; ++row, x += n, y += n) {
    double top = -infinity;
    for (index_t i = 0; i < n && top == top; ++i) top = std::isnan(x[i]) ? not_a_number : std::max(top, static_cast<double>(x[i]));
    std::fill_n(y, n, static_cast<T>(std::isnan(top) || top == infinity ? not_a_number : 0.0));
    if (!std::isfinite(top)) continue;
    c.count = 0;
    for (index_t i = 0; i < n; ++i) {
      const double z = factor * (static_cast<double>(x[i]) - top);
      if (!(z > -1)) continue;
      c.z[static_cast<std::size_t>(c.count)] = z;
      c.place[static_cast<std::size_t>(c.count++)] = i;
    }
    weigh(c);
    const double total = sum_of(c.weight, c.count);
    for (std::size_t i = 0; i < static_cast<std::size_t>(c.count); ++i) {
      const T weight = static_cast<T>(c.weight[i] / total);
      if (weight >= std::numeric_limits<T>::min()) y[c.place[i]] = weight;
    }
  }
}

// tau with sum [z - tau]_+ = 1.
inline double sparsemax_threshold(Candidates& c) {
  Numbers& u = c.excess;
  std::copy_n(c.z.begin(), c.count, u.begin());
  std::sort(u.begin(), u.begin() + c.count, std::greater<>());
  double sum = 0, tau = -1;
  for (index_t r = 1; r <= c.count; ++r) {
    const double next = u[static_cast<std::size_t>(r - 1)];
    if (1 + static_cast<double>(r) * next <= sum + next) break;
    sum += next;
    tau = (sum - 1) / static_cast<double>(r);
  }
  return tau;
}

inline void sparsemax_weights(Candidates& c) {
  c.exceed(sparsemax_threshold(c));
  std::copy_n(c.excess.begin(), c.count, c.weight.begin());
}

// The decreasing function whose root is the threshold, and minus its slope. Leaves excess and weight at tau behind.
struct Excess {
  double value, slope;
};
inline Excess entmax_excess(Candidates& c, double alpha, double tau) {
  c.exceed(tau);
  power(c.excess.data(), 1 / (alpha - 1), c.weight.data(), c.count);
  double slope = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.count); ++i)
    if (c.excess[i] > 0) slope += c.weight[i] / c.excess[i];
  return {sum_of(c.weight, c.count) - 1, slope / (alpha - 1)};
}
inline Excess normmax_excess(Candidates& c, double alpha, double tau) {
  c.exceed(tau);
  power(c.excess.data(), 1 / (alpha - 1), c.weight.data(), c.count);
  double sum = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.count); ++i) sum += c.weight[i] * c.excess[i];
  return {sum - 1, sum_of(c.weight, c.count) * alpha / (alpha - 1)};
}

// Newton's method from the left end, where the excess is not negative: of a convex function its steps never pass the root.
template <class F>
void solve_convex(F&& excess_at) {
  double tau = -1;
  for (int i = 0; i < 100; ++i) {
    const Excess e = excess_at(tau);
    const double step = e.value / e.slope;
    if (!(step > -std::numeric_limits<double>::epsilon() * tau)) return;
    tau += step;
  }
}

// Entmax with alpha > 2 has a vertical tangent wherever an entry enters the support, which leaves only halving.
template <class F>
void solve_by_halving(double low, double high, F&& excess_at) {
  for (int i = 0; i < 100; ++i) {
    const double middle = low + (high - low) / 2;
    if (middle == low || middle == high) break;
    (excess_at(middle).value >= 0 ? low : high) = middle;
  }
  (void)excess_at(low);
}

inline void entmax_weights(Candidates& c, double alpha) {
  const auto excess_at = [&](double tau) { return entmax_excess(c, alpha, tau); };
  if (alpha < 2) solve_convex(excess_at);
  else solve_by_halving(-1, -power(static_cast<double>(c.count), 1 - alpha), excess_at);
}
inline void normmax_weights(Candidates& c, double alpha) {
  solve_convex([&](double tau) { return normmax_excess(c, alpha, tau); });
}
inline void uniform_weights(Candidates& c) {
  c.exceed(sparsemax_threshold(c));
  for (std::size_t i = 0; i < static_cast<std::size_t>(c.count); ++i) c.weight[i] = c.excess[i] > 0 ? 1 : 0;
}

}  // namespace gradus::define
