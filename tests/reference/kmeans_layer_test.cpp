// The learnable k-means layer: four attentions on negative squared distances, their 24 parameters, ten steps of Adam.
#include <cmath>

#include "engine/ops/clustering_loss.hpp"
#include "engine/ops/distance.hpp"
#include "tests/reference/arrays.hpp"
#include "tests/reference/layers.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

const std::vector<std::string> attentions{"cax", "sax", "cac", "sac"};

ParameterSet parameters_of(const Arrays& arrays) {
  ParameterSet set;
  for (const std::string& attention : attentions)
    for (const char* part : {"_q", "_k", "_v"})
      for (const char* kind : {"_weight", "_bias"}) set.add(attention + part + kind, copy(arrays[attention + part + kind]));
  return set;
}

Tensor attend(const WatchedParameters& w, const std::string& name, const Tensor& from, const Tensor& to) {
  const auto project = [&](const char* part, const Tensor& tokens) { return linear_layer(tokens, w[name + part + "_weight"], w[name + part + "_bias"]); };
  const Tensor scores = -squared_distance(project("_q", from), project("_k", to)) / std::sqrt(static_cast<double>(from.size(-1)));
  return matmul(softmax(scores), project("_v", to));
}

struct Layer {
  Tensor tokens, centres;
};

// The cross attention of the centres reads the new data tokens; everything else reads the old ones.
Layer run(const WatchedParameters& w, const Tensor& data, const Tensor& centres) {
  const Tensor tokens = data + attend(w, "cax", data, centres) + attend(w, "sax", data, data);
  return {tokens, centres + attend(w, "cac", centres, tokens) + attend(w, "sac", centres, centres)};
}

void compare(DType dtype) {
  const Arrays arrays("kmeans_layer", dtype);
  if (!arrays.present()) return;
  const Tensor x = arrays["X"], c = arrays["C"];
  const index_t batch = x.size(0), n = x.size(1), d = x.size(2), k = c.size(1);
  const Tensor data = concat(std::vector<Tensor>{x, Tensor::zeros({batch, n, k}, dtype)}, -1);
  const Tensor centres = concat(std::vector<Tensor>{c, view::expand(Tensor::identity(k, dtype), {batch, k, k})}, -1);
  const auto loss_of = [&](const Layer& layer) { return smoothed_kmeans_loss(x, slice(layer.centres, -1, {0, d}), {.inverse_temperature = 10.0}); };

  ParameterSet parameters = parameters_of(arrays);
  Tape tape;
  const WatchedParameters watched = tape.watch(parameters);
  const Layer layer = run(watched, data, centres);
  const Tensor loss = loss_of(layer);
  arrays.check("tokens_out", layer.tokens);
  arrays.check("centres_out", layer.centres);
  arrays.check("loss", loss);
  const Gradients gradients = tape.backward(loss);
  CHECK(parameters.size() == 24);
  for (int i = 0; i < parameters.size(); ++i) arrays.check(parameters[i].name + "_grad", gradients.of(watched[i]));

  const auto adam = make_adam({.learning_rate = 0.01});
  arrays.check("adam_loss_curve", loss_curve(parameters, *adam, 10, [&](const WatchedParameters& w) { return loss_of(run(w, data, centres)); }));
}

}  // namespace

TEST_CASE("the_kmeans_layer_its_24_gradients_and_ten_steps_of_adam_are_the_reference_s", "[reference]") {
  compare(DType::f64);
  compare(DType::f32);
}
