// Optimiser updates against the formulas of PyTorch's documentation, over several steps, at every length and misalignment.

#include "tests/catch.hpp"
#include "tests/kernels/spans.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

constexpr int steps = 3;
constexpr index_t longest = 67;

template <class T>
std::vector<T> gradient_at(int step) {
  return Numbers(20 + static_cast<std::uint64_t>(step)).take<T>(longest);
}

// In long double, one parameter: what sgd does at step t to the parameter and its buffer.
struct SgdModel {
  long double p, buffer = 0;
  void step(int t, long double g, long double rate, long double momentum, long double decay, bool nesterov) {
    g += decay * p;
    if (momentum != 0) {
      buffer = t == 1 ? g : momentum * buffer + g;
      g = nesterov ? g + momentum * buffer : buffer;
    }
    p -= rate * g;
  }
};
struct AdamModel {
  long double p, m = 0, v = 0;
  void step(int t, long double g, long double rate, long double beta1, long double beta2, long double epsilon, long double decay, bool decoupled) {
    if (decoupled) p *= 1 - rate * decay;
    else g += decay * p;
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const long double corrected = std::sqrt(v) / std::sqrt(1 - std::pow(beta2, t));
    p -= rate / (1 - std::pow(beta1, t)) * m / (corrected + epsilon);
  }
};

struct RmspropModel {
  long double p, square = 0, mean = 0, buffer = 0;
  void step(long double g, long double rate, long double alpha, long double epsilon, long double momentum, long double decay, bool centred) {
    g += decay * p;
    square = alpha * square + (1 - alpha) * g * g;
    mean = alpha * mean + (1 - alpha) * g;
    const long double v = centred ? square - mean * mean : square;
    buffer = momentum * buffer + g / (std::sqrt(v) + epsilon);
    p -= rate * buffer;
  }
};

template <class T>
bool near(T got, long double wanted) {
  return std::fabs(static_cast<long double>(got) - wanted) <= 8 * std::numeric_limits<T>::epsilon() * std::max(1.0L, std::fabs(wanted));
}

template <class T>
void check_sgd(T momentum, T decay, bool nesterov) {
  INFO("momentum " << momentum << ", decay " << decay << ", nesterov " << nesterov);
  const T rate = static_cast<T>(0.1);
  const std::vector<T> start = Numbers(19).take<T>(longest);
  bool right = true;
  for (index_t n = 0; n <= longest; ++n) {
    Guarded<T> p(std::vector<T>(start.begin(), start.begin() + n), n % 16), buffer(n, (n * 3) % 16);
    for (int t = 1; t <= steps; ++t)
      kernels::active<T>().update.sgd({rate, momentum, decay, nesterov, t == 1}, gradient_at<T>(t).data(), momentum == 0 ? nullptr : buffer.data(), p.data(),
                                      n);
    for (index_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      SgdModel model{start[at]};
      for (int t = 1; t <= steps; ++t) model.step(t, gradient_at<T>(t)[at], rate, momentum, decay, nesterov);
      right = right && near(p[i], model.p) && (momentum == 0 || near(buffer[i], model.buffer));
    }
    right = right && p.surroundings_untouched() && buffer.surroundings_untouched();
  }
  CHECK(right);
}

template <class T>
void check_adam(double decay, bool decoupled) {
  INFO("decay " << decay << ", decoupled " << decoupled);
  const double rate = 0.01, beta1 = 0.8, beta2 = 0.95, epsilon = 1e-3;
  const std::vector<T> start = Numbers(18).take<T>(longest);
  const auto& update = kernels::active<T>().update;
  bool right = true;
  for (index_t n = 0; n <= longest; ++n) {
    const std::vector<T> zeros(static_cast<std::size_t>(n));
    Guarded<T> p(std::vector<T>(start.begin(), start.begin() + n), n % 16), m(zeros, (n * 3) % 16), v(zeros, (n * 5) % 16);
    for (int t = 1; t <= steps; ++t) {
      const kernels::AdamStep<T> step{.rate = static_cast<T>(rate),
                                      .beta1 = static_cast<T>(beta1),
                                      .beta2 = static_cast<T>(beta2),
                                      .epsilon = static_cast<T>(epsilon),
                                      .weight_decay = static_cast<T>(decay),
                                      .correction1 = static_cast<T>(1 - std::pow(beta1, t)),
                                      .sqrt_correction2 = static_cast<T>(std::sqrt(1 - std::pow(beta2, t))),
                                      .one_minus_beta1 = static_cast<T>(1 - beta1),
                                      .one_minus_beta2 = static_cast<T>(1 - beta2)};
      (decoupled ? update.adamw : update.adam)(step, gradient_at<T>(t).data(), m.data(), v.data(), p.data(), n);
    }
    for (index_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      AdamModel model{start[at]};
      for (int t = 1; t <= steps; ++t) model.step(t, gradient_at<T>(t)[at], rate, beta1, beta2, epsilon, decay, decoupled);
      right = right && near(p[i], model.p) && near(m[i], model.m) && near(v[i], model.v);
    }
    right = right && p.surroundings_untouched() && m.surroundings_untouched() && v.surroundings_untouched();
  }
  CHECK(right);
}

template <class T>
void check_rmsprop(double momentum, double decay, bool centred) {
  INFO("momentum " << momentum << ", decay " << decay << ", centred " << centred);
  const double rate = 0.01, alpha = 0.8, epsilon = 1e-2;
  const kernels::RmspropStep<T> step{.rate = static_cast<T>(rate),
                                     .alpha = static_cast<T>(alpha),
                                     .epsilon = static_cast<T>(epsilon),
                                     .momentum = static_cast<T>(momentum),
                                     .weight_decay = static_cast<T>(decay),
                                     .one_minus_alpha = static_cast<T>(1 - alpha)};
  const std::vector<T> start = Numbers(17).take<T>(longest);
  bool right = true;
  for (index_t n = 0; n <= longest; ++n) {
    const std::vector<T> zeros(static_cast<std::size_t>(n));
    Guarded<T> p(std::vector<T>(start.begin(), start.begin() + n), n % 16), square(zeros, (n * 3) % 16), mean(zeros, (n * 5) % 16), buffer(zeros, (n * 7) % 16);
    for (int t = 1; t <= steps; ++t)
      kernels::active<T>().update.rmsprop(step, gradient_at<T>(t).data(), square.data(), centred ? mean.data() : nullptr,
                                          momentum == 0 ? nullptr : buffer.data(), p.data(), n);
    for (index_t i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      RmspropModel model{start[at]};
      for (int t = 1; t <= steps; ++t) model.step(gradient_at<T>(t)[at], rate, alpha, epsilon, momentum, decay, centred);
      right = right && near(p[i], model.p) && near(square[i], model.square) && (!centred || near(mean[i], model.mean));
    }
    right = right && p.surroundings_untouched() && square.surroundings_untouched() && mean.surroundings_untouched() && buffer.surroundings_untouched();
  }
  CHECK(right);
}

}  // namespace

TEMPLATE_TEST_CASE("rmsprop_follows_its_formula", "", float, double) {
  on_every_isa([] {
    for (const double momentum : {0.0, 0.9})
      for (const double decay : {0.0, 0.1})
        for (const bool centred : {false, true}) check_rmsprop<TestType>(momentum, decay, centred);
  });
}

TEMPLATE_TEST_CASE("rmsprop_of_a_constant_gradient_never_takes_the_root_of_a_negative_variance", "", float, double) {
  on_every_isa([] {
    for (const TestType g : {TestType(0.1), TestType(0.3), TestType(7), TestType(1e-3)}) {
      TestType p = 1, square = 0, mean = 0;
      const TestType gradient = g;
      const kernels::RmspropStep<TestType> step{TestType(0.001), TestType(0.7), TestType(1e-3), 0, 0, TestType(0.3)};
      bool finite = true;
      for (int t = 0; t < 300; ++t) {
        kernels::active<TestType>().update.rmsprop(step, &gradient, &square, &mean, nullptr, &p, 1);
        finite = finite && std::isfinite(p);
      }
      CHECK(finite);
    }
  });
}

TEMPLATE_TEST_CASE("sgd_follows_its_formula", "", float, double) {
  on_every_isa([] {
    for (const TestType momentum : {TestType(0), TestType(0.9)})
      for (const TestType decay : {TestType(0), TestType(0.01)})
        for (const bool nesterov : {false, true}) check_sgd<TestType>(momentum, decay, nesterov);
  });
}

TEMPLATE_TEST_CASE("adam_and_adamw_follow_their_formulas", "", float, double) {
  on_every_isa([] {
    for (const double decay : {0.0, 0.1})
      for (const bool decoupled : {false, true}) check_adam<TestType>(decay, decoupled);
  });
}
