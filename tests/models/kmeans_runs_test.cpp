// What a run of the k-means transformer promises beside exactness: equal bits, observers that change nothing, the published setting.
#include <algorithm>
#include <cmath>

#include "engine/autograd/gradcheck.hpp"
#include "engine/core/parallel.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/reduce.hpp"
#include "models/kmeans/data.hpp"
#include "models/kmeans/transformer.hpp"
#include "tests/catch.hpp"

using namespace gradus;
using namespace gradus::kmeans;

namespace {

// Centres and labels of every kind of run, one after the other.
std::vector<Tensor> everything(DType dtype) {
  const Tensor points = published_mixture(20000, 3, 7, Random(5), dtype);
  const Tensor start = initial_centres(points, 7, Start::kmeans_plus_plus, Random(1));
  std::vector<Tensor> results{start};
  for (const Construction construction : {Construction::euclidean, Construction::dot_product})
    for (const double beta : {50.0, HUGE_VAL}) {
      const Trace trace = run_transformer(points, start, 4, {construction, beta, SelfAttention::identity, CentreUpdate::linear}, true);
      results.insert(results.end(), {trace.centres.back(), trace.labels.back()});
    }
  const Tensor few = published_mixture(300, 3, 7, Random(6), dtype);
  results.push_back(
      run_transformer(few, initial_centres(few, 7, Start::farthest, Random(2)), 3, {Construction::euclidean, 50, SelfAttention::full, CentreUpdate::softmax})
          .centres.back());
  return results;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& x, const Tensor& y) { return bit_equal(x, y); });
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace

TEST_CASE("clustering gives the same bits on 1, 2 and 4 threads and on every instruction set with fma", "[kmeans][parallel]") {
  using kernels::Isa;
  const int threads_before = thread_count();
  const Isa isa_before = kernels::active_isa();
  for (const DType dtype : {DType::f32, DType::f64}) {
    set_thread_count(1);
    const auto expected = everything(dtype);
    for (const int threads : {2, 4}) {
      set_thread_count(threads);
      CHECK(same_bits(everything(dtype), expected));
    }
    for (const Isa isa : {Isa::avx2, Isa::avx512}) {
      if (!kernels::available(isa) || isa_before == Isa::baseline) continue;
      kernels::select_isa(isa);
      CHECK(same_bits(everything(dtype), expected));
    }
    kernels::select_isa(isa_before);
    set_thread_count(threads_before);
  }
}

TEST_CASE("a layer gives the same bits on a tape, watched, and off it", "[kmeans][observer]") {
  struct Counter : Observer {
    int seen = 0;
    void on_step(const StepEvent&) override { ++seen; }
  };
  const Tensor points = published_mixture(200, 2, 4, Random(3)), start = initial_centres(points, 4, Start::first, Random(0));
  for (const Construction construction : {Construction::euclidean, Construction::dot_product})
    for (const double beta : {30.0, HUGE_VAL}) {
      const TransformerOptions options{construction, beta, SelfAttention::full, CentreUpdate::softmax};
      const LayerWeights weights = theorem_weights(construction, 2, 4, DType::f64);
      const auto run = [&](Observer* observer, bool on_tape) {
        Tape tape;
        if (observer) tape.attach(*observer);
        Tokens tokens = embed(on_tape ? tape.variable(points) : points, start, construction);
        for (int t = 0; t < 3; ++t) tokens = layer(tokens, weights, options);
        const Tensor gradient = on_tape && std::isfinite(beta) ? tape.backward(sum(square(tokens.centres))).of(tape.value(0)) : Tensor::zeros({1});
        return std::vector<Tensor>{tokens.data.detached(), tokens.centres.detached(), gradient.detached()};
      };
      Counter counter;
      const auto watched = run(&counter, true), taped = run(nullptr, true), plain = run(nullptr, false);
      CHECK(counter.seen > 20);
      CHECK(same_bits(watched, taped));
      CHECK(bit_equal(plain[1], taped[1]));
    }
}

TEST_CASE("gradients flow through a layer at finite temperature", "[kmeans]") {
  const Tensor points = published_mixture(12, 2, 3, Random(3)), start = initial_centres(points, 3, Start::first, Random(0));
  for (const Construction construction : {Construction::euclidean, Construction::dot_product})
    for (const CentreUpdate update : {CentreUpdate::linear, CentreUpdate::softmax}) {
      const LayerWeights weights = theorem_weights(construction, 2, 3, DType::f64);
      const auto centres_after = [&](std::span<const Tensor> x) {
        return slice(layer(embed(x[0], x[1], construction), weights, {construction, 5, SelfAttention::full, update}).centres, 1, {0, 2});
      };
      const GradcheckResult result = gradcheck(centres_after, std::vector<Tensor>{points, start});
      INFO(result.describe());
      CHECK(result.passed);
    }
}

TEST_CASE("on the published setting the median run at inverse temperature 10,000 is Lloyd's", "[kmeans]") {
  std::vector<double> differences, agreements;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Tensor points = published_mixture(10000, 2, 5, Random(seed));
    const Tensor start = initial_centres(points, 5, Start::first, Random(seed));
    const Trace reference = lloyd(points, start, 10, Random(seed)), got = run_transformer(points, start, 10, {.inverse_temperature = 1e4});
    differences.push_back(std::fabs(std::log(got.objective.back()) - std::log(reference.objective.back())));
    agreements.push_back(agreement(got.labels.back(), reference.labels.back()));
  }
  CHECK(median(differences) <= 1e-3);
  CHECK(median(agreements) >= 0.999);
}

TEST_CASE("the published mixture fills the unit cube and depends on its seed alone", "[kmeans]") {
  const Tensor a = published_mixture(1003, 3, 4, Random(9)), b = published_mixture(1003, 3, 4, Random(9));
  CHECK(bit_equal(a, b));
  CHECK_FALSE(equal(a, published_mixture(1003, 3, 4, Random(10))));
  CHECK(equal(min(a, {.axes = {0}}), Tensor::zeros({3}, DType::f64)));
  CHECK(equal(max(a, {.axes = {0}}), Tensor::ones({3}, DType::f64)));
  CHECK_THROWS_AS(published_mixture(3, 2, 4, Random(1)), ValueError);
}

TEST_CASE("starts choose distinct points, far apart where they should", "[kmeans]") {
  const Tensor points = published_mixture(500, 2, 6, Random(2));
  for (const Start start : {Start::first, Start::random, Start::kmeans_plus_plus, Start::farthest}) {
    const Tensor centres = initial_centres(points, 12, start, Random(8));
    const Trace again = lloyd(centres, centres, 0, Random(0));
    CHECK(again.objective.back() == 0);
    CHECK(again.tied_points.back() == 0);  // no two coincide
    CHECK(bit_equal(centres, initial_centres(points, 12, start, Random(8))));
  }
  CHECK(equal(initial_centres(points, 3, Start::first, Random(1)), view::slice(points, 0, {0, 3})));
  // Two far groups: the second centre of a farthest-point start is always in the other one.
  Tensor groups = Tensor::zeros({40, 1}, DType::f64);
  for (index_t i = 0; i < 40; ++i) groups.set({i, 0}, static_cast<double>(i % 20) + (i < 20 ? 0 : 1000));
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (const Start start : {Start::farthest, Start::kmeans_plus_plus}) {
      const Tensor centres = initial_centres(groups, 2, start, Random(seed));
      CHECK(std::fabs(centres.at({0, 0}) - centres.at({1, 0})) > 900);
    }
}
