#include "optim/optimizer.hpp"

#include <cmath>

#include "engine/autograd/gradcheck.hpp"
#include "engine/io/safetensors.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/io/data.hpp"
#include "tests/reference.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

using Make = std::function<std::unique_ptr<Optimizer>()>;

// Gradient of 0.5 q^T A q with A = diag(1, 3, 10).
const std::vector<double> diagonal{1, 3, 10};

struct Quadratic {
  ParameterSet parameters;
  Quadratic(DType dtype = DType::f64) { parameters.add("q", Tensor::of({1, -2, 0.5}, dtype)); }
  void step(Optimizer& optimizer) {
    Tape tape;
    const WatchedParameters watched = tape.watch(parameters);
    const Tensor a = Tensor::of({1, 3, 10}, parameters[0].value.dtype());
    const Tensor loss = 0.5 * sum(a * square(watched[0]));
    optimizer.step(parameters, watched, tape.backward(loss));
  }
  [[nodiscard]] std::vector<double> values() const { return parameters[0].value.to_vector<double>(); }
};

// The textbook updates on plain numbers.
struct PlainState {
  std::vector<double> w{1, -2, 0.5}, m = std::vector<double>(3), v = std::vector<double>(3), a = std::vector<double>(3);
  int t = 0;
};

void plain_sgd(PlainState& s, const SgdOptions& o) {
  ++s.t;
  for (std::size_t i = 0; i < 3; ++i) {
    const double g = diagonal[i] * s.w[i] + o.weight_decay * s.w[i];
    s.m[i] = s.t == 1 ? g : o.momentum * s.m[i] + g;
    const double direction = o.momentum == 0 ? g : o.nesterov ? g + o.momentum * s.m[i] : s.m[i];
    s.w[i] -= o.learning_rate * direction;
  }
}

void plain_adam(PlainState& s, const AdamOptions& o, bool decoupled) {
  ++s.t;
  for (std::size_t i = 0; i < 3; ++i) {
    double g = diagonal[i] * s.w[i];
    if (decoupled) s.w[i] *= 1 - o.learning_rate * o.weight_decay;
    else g += o.weight_decay * s.w[i];
    s.m[i] = o.beta1 * s.m[i] + (1 - o.beta1) * g;
    s.v[i] = o.beta2 * s.v[i] + (1 - o.beta2) * g * g;
    const double m = s.m[i] / (1 - std::pow(o.beta1, s.t)), v = s.v[i] / (1 - std::pow(o.beta2, s.t));
    s.w[i] -= o.learning_rate * m / (std::sqrt(v) + o.epsilon);
  }
}

void plain_rmsprop(PlainState& s, const RmspropOptions& o) {
  ++s.t;
  for (std::size_t i = 0; i < 3; ++i) {
    const double g = diagonal[i] * s.w[i] + o.weight_decay * s.w[i];
    s.v[i] = o.alpha * s.v[i] + (1 - o.alpha) * g * g;
    s.a[i] = o.alpha * s.a[i] + (1 - o.alpha) * g;
    const double v = o.centered ? s.v[i] - s.a[i] * s.a[i] : s.v[i];
    s.m[i] = o.momentum * s.m[i] + g / (std::sqrt(v) + o.epsilon);
    s.w[i] -= o.learning_rate * s.m[i];
  }
}

// The entries that a ParameterSet wrote.
NamedTensors parameters_in(const NamedTensors& all) {
  NamedTensors found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found), [](const auto& entry) { return !entry.first.starts_with("optimizer/"); });
  return found;
}

void check_path(Optimizer& optimizer, const std::function<void(PlainState&)>& plain) {
  Quadratic problem;
  PlainState state;
  for (int step = 0; step < 10; ++step) {
    problem.step(optimizer);
    plain(state);
    const auto got = problem.values();
    for (std::size_t i = 0; i < 3; ++i) CHECK(got[i] == Approx(state.w[i]).epsilon(1e-13).margin(1e-13));
  }
  CHECK(optimizer.steps() == 10);
}

}  // namespace

TEST_CASE("sgd follows the textbook with every option", "[optim]") {
  for (const SgdOptions& options :
       {SgdOptions{0.05}, SgdOptions{0.05, 0.9}, SgdOptions{0.05, 0.9, true}, SgdOptions{0.05, 0.9, true, 0.1}, SgdOptions{0.02, 0, false, 0.3}})
    check_path(*make_sgd(options), [&](PlainState& s) { plain_sgd(s, options); });
}

TEST_CASE("adam and adamw follow the textbook with every option", "[optim]") {
  for (const AdamOptions& options : {AdamOptions{0.1}, AdamOptions{0.1, 0.8, 0.95, 0.1}, AdamOptions{0.1, 0.9, 0.999, 1e-8, 0.2}}) {
    check_path(*make_adam(options), [&](PlainState& s) { plain_adam(s, options, false); });
    check_path(*make_adamw(options), [&](PlainState& s) { plain_adam(s, options, true); });
  }
}

TEST_CASE("rmsprop follows the textbook with every option", "[optim]") {
  for (const RmspropOptions& options : {RmspropOptions{0.05}, RmspropOptions{0.05, 0.8, 0.1}, RmspropOptions{0.05, 0.9, 1e-8, 0.2},
                                        RmspropOptions{0.02, 0.9, 1e-8, 0, 0.9}, RmspropOptions{0.02, 0.9, 1e-3, 0.1, 0.5, true}})
    check_path(*make_rmsprop(options), [&](PlainState& s) { plain_rmsprop(s, options); });
}

TEST_CASE("all optimisers take PyTorch's path on a quadratic", "[optim]") {
  const auto want = reference("optimisers");
  if (want.empty()) return;
  const std::map<std::string, Make> optimizers{{"sgd", [] { return make_sgd({0.05}); }},
                                               {"sgd_momentum",
                                                [] {
                                                  return make_sgd({0.05, 0.9});
                                                }},
                                               {"sgd_nesterov_decay",
                                                [] {
                                                  return make_sgd({0.05, 0.9, true, 0.1});
                                                }},
                                               {"adam",
                                                [] {
                                                  return make_adam({0.1, 0.8, 0.95, 0.1});
                                                }},
                                               {"adamw",
                                                [] {
                                                  return make_adamw({0.1, 0.9, 0.999, 1e-8, 0.2});
                                                }},
                                               {"rmsprop", [] {
                                                  return make_rmsprop({0.05, 0.9});
                                                }}};
  CHECK(want.size() == optimizers.size() + 1);  // and the matrix A
  for (const auto& [name, make] : optimizers)
    for (const DType dtype : {DType::f64, DType::f32}) {
      INFO(name << " " << name_of(dtype));
      Quadratic problem(dtype);
      const auto optimizer = make();
      std::vector<double> path;
      for (int step = 0; step < 10; ++step) {
        problem.step(*optimizer);
        for (index_t i = 0; i < 3; ++i) path.push_back(problem.parameters[0].value.at({i}));
      }
      CHECK(deviation(Tensor::from(path, {10, 3}), want.at(name)) <= (dtype == DType::f64 ? 1e-10 : 1e-5));
    }
}

TEST_CASE("ten steps are five, a file, a load into another optimiser, and five", "[optim]") {
  const TemporaryFolder folder;
  const std::string path = folder.file("state.safetensors");
  const std::vector<std::pair<Make, Make>> pairs{{[] {
                                                    return make_sgd({0.05, 0.9, true, 0.1});
                                                  },
                                                  [] {
                                                    return make_sgd({0.7, 0.1});
                                                  }},
                                                 {[] {
                                                    return make_adam({0.1, 0.8, 0.95, 0.1, 0.01});
                                                  },
                                                  [] { return make_adam(); }},
                                                 {[] {
                                                    return make_adamw({0.1, 0.8, 0.95, 1e-3, 0.2});
                                                  },
                                                  [] {
                                                    return make_adamw({0.5, 0.1, 0.2});
                                                  }},
                                                 {[] {
                                                    return make_rmsprop({0.05, 0.8, 1e-3, 0.1, 0.5, true});
                                                  },
                                                  [] { return make_rmsprop(); }}};
  for (const auto& [make, make_other] : pairs)
    for (const DType dtype : {DType::f32, DType::f64}) {
      Quadratic whole(dtype), half(dtype), resumed(dtype);
      const auto a = make(), b = make(), c = make_other();
      for (int i = 0; i < 10; ++i) whole.step(*a);
      for (int i = 0; i < 5; ++i) half.step(*b);
      NamedTensors state = half.parameters.save();
      for (const auto& entry : b->save()) state.push_back(entry);
      io::write_safetensors(path, state, {}, true);
      const NamedTensors restored = io::read_safetensors(path).tensors;
      resumed.parameters.load(parameters_in(restored));
      c->load(restored);
      CHECK(c->steps() == 5);
      for (int i = 0; i < 5; ++i) resumed.step(*c);
      CHECK(bit_equal(resumed.parameters[0].value, whole.parameters[0].value));
    }
}

TEST_CASE("the state of another optimiser or another model is refused and nothing changes", "[optim]") {
  Quadratic problem;
  const auto adam = make_adam(), sgd = make_sgd();
  problem.step(*adam);
  CHECK_THROWS_AS(sgd->load(adam->save()), ValueError);
  CHECK(sgd->steps() == 0);
  ParameterSet other;
  other.add("p", Tensor::ones({3}, DType::f64));
  CHECK_THROWS_AS(other.load(problem.parameters.save()), ValueError);
  ParameterSet shorter;
  shorter.add("q", Tensor::ones({2}, DType::f64));
  CHECK_THROWS_AS(shorter.load(problem.parameters.save()), ShapeError);
  CHECK(equal(shorter[0].value, Tensor::ones({2}, DType::f64)));
}

TEST_CASE("bad settings and mismatched parameters are refused", "[optim]") {
  CHECK_THROWS_AS(make_sgd({0}), ValueError);
  CHECK_THROWS_AS(make_sgd({-1}), ValueError);
  CHECK_THROWS_AS(make_sgd({std::nan("")}), ValueError);
  CHECK_THROWS_AS(make_sgd({0.1, 1.0}), ValueError);
  CHECK_THROWS_AS(make_sgd({0.1, 0.0, true}), ValueError);
  CHECK_THROWS_AS(make_adam({0.1, 1.0}), ValueError);
  CHECK_THROWS_AS(make_adam({0.1, 0.9, 0.999, -1}), ValueError);
  CHECK_THROWS_AS(make_adamw({0.1, 0.9, 0.999, 1e-8, -0.1}), ValueError);
  CHECK_THROWS_AS(make_rmsprop({0.1, 1.0}), ValueError);
  CHECK_THROWS_AS(make_rmsprop({0.1, -0.1}), ValueError);
  CHECK_THROWS_AS(make_rmsprop({0.1, 0.9, -1}), ValueError);
  CHECK_THROWS_AS(make_rmsprop({0.1, 0.9, 1e-8, -1}), ValueError);
  CHECK_THROWS_AS(make_rmsprop({0.1, 0.9, 1e-8, 0, 1}), ValueError);
  Quadratic problem, other;
  Tape tape;
  const WatchedParameters watched = tape.watch(other.parameters);
  const Gradients gradients = tape.backward(sum(watched[0]));
  const auto sgd = make_sgd();
  CHECK_THROWS_AS(sgd->step(problem.parameters, watched, gradients), ValueError);
  CHECK_THROWS_AS(sgd->step(problem.parameters, GradientList{}), ValueError);
  CHECK_THROWS_AS(sgd->step(problem.parameters, GradientList{Tensor::ones({4}, DType::f64)}), ShapeError);
  CHECK_THROWS_AS(sgd->step(problem.parameters, GradientList{Tensor::ones({3})}), DTypeError);
  CHECK(sgd->steps() == 0);
  CHECK(problem.values() == std::vector<double>{1, -2, 0.5});
}

TEST_CASE("a parameter set knows its names and refuses duplicates", "[optim]") {
  ParameterSet set;
  CHECK(set.add("layer/weight", Tensor::ones({2, 3}), "matrices") == 0);
  CHECK_THROWS_AS(set.add("layer/weight", Tensor::ones({1})), ValueError);
  CHECK_THROWS_AS(set.add("counts", Tensor::arange(3)), DTypeError);
  CHECK(set.numel() == 6);
  try {
    (void)set.index("layer/wieght");
    FAIL("no error");
  } catch (const ValueError& error) {
    CHECK(error.hint().find("'layer/weight'") != std::string::npos);
  }
}
