// The k-means transformer against Lloyd's algorithm, layer by layer, on real point sets.
#include <filesystem>
#include <map>

#include "engine/core/parallel.hpp"
#include "engine/io/table.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/reduce.hpp"
#include "engine/tensor/view.hpp"
#include "models/kmeans/data.hpp"
#include "tests/io/data.hpp"
#include "tests/models/kmeans_reference.hpp"

using namespace gradus;
using namespace gradus::kmeans;
using gradus::testing::as_tensor;
using gradus::testing::plain;
using gradus::testing::tie_splitting_lloyd_step;

namespace {

constexpr index_t layers = 12;
constexpr double exact = 1e-12;  // of max |x|

struct Counts {
  int runs = 0, tied_or_empty = 0;
};

double distance_of(const Tensor& a, const Tensor& b) { return max_difference(a, b); }

// Compares up to the first layer with a tie or an empty cluster with Lloyd, and everywhere with the plain tie-splitting one.
void check_against_lloyd(const Tensor& points, const Tensor& start, Construction construction, Counts& counts) {
  const double bound = exact * max_magnitude(points);
  const Trace expected = lloyd(points, start, layers, Random(1), true);
  const Trace got = run_transformer(points, start, layers, {.construction = construction}, true);
  ++counts.runs;
  index_t exact_layers = 0;
  while (exact_layers < layers && got.tied_points[static_cast<std::size_t>(exact_layers)] == 0 &&
         expected.tied_points[static_cast<std::size_t>(exact_layers)] == 0 && expected.empty_clusters[static_cast<std::size_t>(exact_layers)] == 0)
    ++exact_layers;
  counts.tied_or_empty += exact_layers < layers;
  for (index_t t = 0; t < exact_layers; ++t) {
    const auto at = static_cast<std::size_t>(t);
    if (!equal(got.labels[at], expected.labels[at])) FAIL("assignments differ at layer " << t);
    if (distance_of(got.centres[at + 1], expected.centres[at + 1]) > bound)
      FAIL("centres differ at layer " << t << " by " << distance_of(got.centres[at + 1], expected.centres[at + 1]));
  }
  const Tensor shift = construction == Construction::dot_product ? mean(points, {.axes = {0}}) : Tensor::zeros({points.shape()[1]}, DType::f64);
  const auto data = plain(points - shift);
  auto centres = plain(start - shift);
  for (index_t t = 0; t < layers; ++t) {
    centres = tie_splitting_lloyd_step(data, centres, construction, CentreUpdate::linear);
    const Tensor ours = got.centres[static_cast<std::size_t>(t) + 1];
    if (distance_of(ours, as_tensor(centres) + shift) > 2 * bound)
      FAIL("differs from the tie-splitting Lloyd at layer " << t << " by " << distance_of(ours, as_tensor(centres) + shift));
  }
}

struct DataSet {
  std::string name;
  Tensor points;
  index_t clusters;
};

Tensor tensor_of(const io::Table& table) { return Tensor::from(table.values, {table.rows, table.columns}); }

index_t count_labels(const std::string& path) {
  std::map<double, int> seen;
  for (const double label : io::read_table(path, {.label = "none"}).values)
    if (label != 0) seen[label] = 1;  // 0 is noise
  return static_cast<index_t>(seen.size());
}

std::vector<DataSet> real_sets() {
  std::vector<DataSet> sets;
  const std::string clustering = testing::shared_data("clustering"), toy = testing::shared_data("sklearn-toy");
  if (clustering.empty() || toy.empty()) return sets;
  for (const char* name : {"fcps/atom", "fcps/chainlink", "fcps/engytime", "fcps/hepta", "fcps/lsun", "fcps/target", "fcps/tetra", "fcps/twodiamonds",
                           "fcps/wingnut", "sipu/s1", "sipu/s2", "sipu/s3", "sipu/s4", "sipu/r15", "sipu/aggregation"}) {
    const std::string stem = clustering + "/" + name;
    sets.push_back({name, tensor_of(io::read_table(stem + ".data.gz", {.label = "none"})), count_labels(stem + ".labels0.gz")});
  }
  sets.push_back({"iris", tensor_of(io::read_table(toy + "/iris.csv", {.label = "last"})), 3});
  sets.push_back({"digits", tensor_of(io::read_table(toy + "/digits.csv.gz", {.label = "last"})), 10});
  return sets;
}

}  // namespace

TEST_CASE("both constructions are Lloyd's algorithm on real data, layer by layer", "[kmeans][data]") {
  for (const Construction construction : {Construction::euclidean, Construction::dot_product}) {
    Counts counts;
    for (const DataSet& set : real_sets())
      for (const Start start : {Start::random, Start::kmeans_plus_plus})
        for (std::uint64_t seed = 0; seed < 10; ++seed) {
          INFO(set.name << ", start " << static_cast<int>(start) << ", seed " << seed);
          check_against_lloyd(set.points, initial_centres(set.points, set.clusters, start, Random(seed)), construction, counts);
        }
    if (counts.runs > 0) {
      WARN("compared " << counts.runs << " runs; " << counts.tied_or_empty << " met a tie or an empty cluster and were tie-splitting from there");
      CHECK(counts.tied_or_empty < counts.runs);
    }
  }
}

TEST_CASE("both constructions are Lloyd's algorithm on generated mixtures", "[kmeans]") {
  Counts counts;
  for (const Construction construction : {Construction::euclidean, Construction::dot_product})
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const Tensor points = published_mixture(1500, 1 + static_cast<index_t>(seed) * 2, 6, Random(seed));
      check_against_lloyd(points, initial_centres(points, 6, Start::kmeans_plus_plus, Random(seed)), construction, counts);
    }
  CHECK(counts.tied_or_empty == 0);
}

TEST_CASE("duplicated points change nothing but their weight", "[kmeans]") {
  const Tensor once = published_mixture(200, 2, 3, Random(4));
  Tensor twice = Tensor::empty({400, 2}, DType::f64);
  for (const index_t half : {0, 200}) {
    Tensor place = view::slice(twice, 0, {half, half + 200});
    copy_into(place, once);
  }
  const Tensor start = initial_centres(once, 3, Start::kmeans_plus_plus, Random(1));
  for (const Construction construction : {Construction::euclidean, Construction::dot_product}) {
    const Trace a = run_transformer(once, start, 8, {.construction = construction}), b = run_transformer(twice, start, 8, {.construction = construction});
    CHECK(all_close(a.centres.back(), b.centres.back(), 1e-12, 1e-13));
    // All four attentions in full: a duplicate carries the same assignment, so being tied with it is harmless.
    const TransformerOptions full{construction, std::numeric_limits<double>::infinity(), SelfAttention::full, CentreUpdate::softmax};
    CHECK(all_close(run_transformer(twice, start, 8, full).centres.back(), b.centres.back(), 1e-12, 1e-13));
  }
}

TEST_CASE("with as many clusters as points every point keeps its centre", "[kmeans]") {
  const Tensor points = published_mixture(40, 3, 4, Random(2));
  for (const Construction construction : {Construction::euclidean, Construction::dot_product}) {
    const Trace trace = run_transformer(points, initial_centres(points, 40, Start::random, Random(3)), 4, {.construction = construction});
    CHECK(trace.objective.back() < 1e-25);
    CHECK(trace.empty_clusters.back() == 0);
    CHECK(all_close(trace.centres.back(), trace.centres.front(), 1e-14, 1e-15));
  }
}

TEST_CASE("a starved cluster stays, goes to the mean of all, or takes a data point, as the laws say", "[kmeans]") {
  const Tensor points = published_mixture(300, 2, 3, Random(7));
  Tensor start = initial_centres(points, 4, Start::kmeans_plus_plus, Random(1));
  start.set({3, 0}, 50);
  start.set({3, 1}, -60);
  for (const Construction construction : {Construction::euclidean, Construction::dot_product}) {
    const Trace linear = run_transformer(points, start, 3, {.construction = construction});
    CHECK(linear.empty_clusters == std::vector<index_t>{1, 1, 1});
    CHECK(all_close(view::select(linear.centres.back(), 0, 3), Tensor::of({50, -60}, DType::f64), 1e-14));
    for (const SelfAttention self : {SelfAttention::identity, SelfAttention::full}) {
      const Trace softmax = run_transformer(points, start, 1, {construction, std::numeric_limits<double>::infinity(), self, CentreUpdate::softmax});
      CHECK(softmax.empty_clusters[0] == 1);
      CHECK(all_close(view::select(softmax.centres.back(), 0, 3), mean(points, {.axes = {0}}), 1e-12));
    }
  }
  const Trace plain_lloyd = lloyd(points, start, 1, Random(5));
  CHECK(plain_lloyd.empty_clusters[0] == 1);
  const auto member = static_cast<index_t>(Random(5).integer(3, 300));
  CHECK(equal(view::select(plain_lloyd.centres.back(), 0, 3), view::select(points, 0, member)));
}

TEST_CASE("more clusters than distinct points are reported and do not spread NaN", "[kmeans]") {
  const Tensor points = Tensor::of({{0, 0}, {0, 0}, {1, 1}, {1, 1}, {1, 1}}, DType::f64);
  const Tensor start = initial_centres(points, 4, Start::random, Random(1));
  for (const CentreUpdate update : {CentreUpdate::linear, CentreUpdate::softmax}) {
    const Trace trace = run_transformer(points, start, 5, {.centre_update = update});
    CHECK(trace.objective.back() < 1e-20);
    CHECK(trace.tied_points.front() > 0);
    CHECK(max_difference(trace.centres.back(), trace.centres.back()) == 0);
  }
}

TEST_CASE("all four attentions in full are the same algorithm as the published switches", "[kmeans]") {
  const Tensor points = published_mixture(250, 3, 4, Random(11));
  const Tensor start = initial_centres(points, 4, Start::kmeans_plus_plus, Random(2));
  const Trace reference = lloyd(points, start, 6, Random(1));
  for (const Construction construction : {Construction::euclidean, Construction::dot_product})
    for (const SelfAttention self : {SelfAttention::identity, SelfAttention::full})
      for (const CentreUpdate update : {CentreUpdate::linear, CentreUpdate::softmax}) {
        const Trace trace = run_transformer(points, start, 6, {construction, std::numeric_limits<double>::infinity(), self, update}, true);
        for (std::size_t t = 0; t < trace.centres.size(); ++t) CHECK(distance_of(trace.centres[t], reference.centres[t]) < exact);
        CHECK(equal(trace.labels.back(), reference.labels.back()));
      }
}

TEST_CASE("the blocked pass equals the layer of matrices at finite temperature too", "[kmeans]") {
  const Tensor points = published_mixture(400, 2, 5, Random(3));
  const Tensor start = initial_centres(points, 5, Start::first, Random(0));
  for (const Construction construction : {Construction::euclidean, Construction::dot_product}) {
    const TransformerOptions options{construction, 100, SelfAttention::identity, CentreUpdate::linear};
    const Tensor shift = construction == Construction::dot_product ? mean(points, {.axes = {0}}) : Tensor::zeros({2}, DType::f64);
    const LayerWeights weights = theorem_weights(construction, 2, 5, DType::f64);
    Tokens tokens = embed(points - shift, start - shift, construction);
    for (int t = 0; t < 3; ++t) tokens = layer(tokens, weights, options);
    const Trace trace = run_transformer(points, start, 3, options);
    CHECK(all_close(view::slice(tokens.centres, 1, {0, 2}) + shift, trace.centres.back(), 1e-12, 1e-13));
  }
}

TEST_CASE("the dot-product tokens carry the squared norms and the constant through every layer", "[kmeans]") {
  const Tensor points = published_mixture(100, 3, 4, Random(3));
  const LayerWeights weights = theorem_weights(Construction::dot_product, 3, 4, DType::f64);
  Tokens tokens = embed(points, initial_centres(points, 4, Start::first, Random(0)), Construction::dot_product);
  for (int t = 0; t < 5; ++t) {
    tokens = layer(tokens, weights, {.construction = Construction::dot_product});
    const Tensor c = view::slice(tokens.centres, 1, {0, 3});
    CHECK(all_close(view::slice(tokens.centres, 1, {7, 8}), sum(square(c), {.axes = {1}, .keep = true}), 1e-14, 1e-14));
    CHECK(equal(view::slice(tokens.centres, 1, {8, 9}), Tensor::ones({4, 1}, DType::f64)));
  }
}

TEST_CASE("colder attention is closer to Lloyd", "[kmeans]") {
  const Tensor points = published_mixture(2000, 2, 5, Random(21));
  const Tensor start = initial_centres(points, 5, Start::kmeans_plus_plus, Random(4));
  const double target = std::log(lloyd(points, start, 10, Random(1)).objective.back());
  double previous = HUGE_VAL;
  for (const double beta : {1.0, 10.0, 100.0, 1e4}) {
    const double gap = std::fabs(std::log(run_transformer(points, start, 10, {.inverse_temperature = beta}).objective.back()) - target);
    CHECK(gap < previous + 1e-9);
    previous = gap;
  }
  CHECK(previous < 1e-3);
}

TEST_CASE("bad problems are refused", "[kmeans]") {
  const Tensor points = Tensor::ones({5, 2}, DType::f64);
  CHECK_THROWS_AS(initial_centres(points, 0, Start::first, Random(1)), ValueError);
  CHECK_THROWS_AS(initial_centres(points, 6, Start::first, Random(1)), ValueError);
  CHECK_THROWS_AS(initial_centres(Tensor::ones({5, 0}, DType::f64), 1, Start::first, Random(1)), ShapeError);
  CHECK_THROWS_AS(initial_centres(Tensor::arange(5), 1, Start::first, Random(1)), ShapeError);
  CHECK_THROWS_AS(run_transformer(points, Tensor::ones({2, 3}, DType::f64), 1, {}), ShapeError);
  CHECK_THROWS_AS(run_transformer(points, Tensor::ones({2, 2}, DType::f64), -1, {}), ValueError);
  CHECK_THROWS_AS(run_transformer(points, Tensor::ones({2, 2}, DType::f64), 1, {.inverse_temperature = 0}), ValueError);
}
