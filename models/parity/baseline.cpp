#include "models/parity/baseline.hpp"

#include <cmath>

#include "engine/autograd/tape.hpp"
#include "engine/core/text.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/linear.hpp"
#include "engine/ops/loss.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"
#include "optim/optimizer.hpp"

namespace gradus::parity {
namespace {

// Streams of a seed, beside those of the problem and of training.
enum Stream : std::uint64_t { weights_stream = 21, batches_stream, test_stream, linear_stream };

constexpr index_t test_rows = 4096, look_every = 250;

// Uniform within +-1 / sqrt(inputs), as is usual for linear layers.
Tensor layer_weights(const Shape& shape, index_t inputs, const Random& random) {
  Tensor t = Tensor::empty(shape, DType::f32);
  random.fill_uniform(std::span(t.mutable_data<float>(), static_cast<std::size_t>(t.numel())));
  return (2.0 * t - 1.0) * (1 / std::sqrt(static_cast<double>(inputs)));
}

ParameterSet network_parameters(index_t bits, index_t width, const Random& random) {
  ParameterSet p;
  p.add("hidden/weight", layer_weights({width, bits}, bits, random.fork(0)));
  p.add("hidden/bias", layer_weights({width}, bits, random.fork(1)));
  p.add("output/weight", layer_weights({1, width}, width, random.fork(2)));
  p.add("output/bias", layer_weights({1}, width, random.fork(3)));
  return p;
}

template <class Parameters>
Tensor network(const Parameters& p, const Tensor& x) {
  const Tensor hidden = linear(x, p(0), {.bias = p(1), .activation = Activation::relu});
  return reshape(linear(hidden, p(2), {.bias = p(3)}), {x.size(0)});
}

struct Score {
  double loss, accuracy;
};
Score score(const Tensor& output, const Tensor& y) { return {mse_loss(output, y).item(), mean(cast(greater(output * y, 0.0), DType::f64)).item()}; }

}  // namespace

NetworkResult train_network(const Problem& problem, const NetworkOptions& options, const std::function<void()>& after_batch) {
  if (options.width < 1 || options.batch < 1 || options.most_batches < 1)
    throw ValueError("parity", cat("a width of ", options.width, ", batches of ", options.batch, ", ", options.most_batches, " of them"), "give numbers >= 1");
  ParameterSet parameters = network_parameters(problem.bits(), options.width, Random(options.seed, weights_stream));
  const auto adam = make_adam({.learning_rate = options.learning_rate});
  const Random random(options.seed, batches_stream);
  const Tensor test = random_signs(test_rows, problem.bits(), Random(options.seed, test_stream)), test_y = targets_of(test, problem.support, DType::f32);
  const Tensor test_x = unpacked(test, problem.bits(), DType::f32);
  NetworkResult result{.parameters = parameters.numel()};
  Tape tape;
  const auto look = [&] {
    const Score at = score(network([&](int i) -> const Tensor& { return parameters[i].value; }, test_x), test_y);
    result.loss = at.loss;
    result.accuracy = at.accuracy;
    result.reached = at.loss < options.target_loss;
    return result.reached;
  };
  while (result.batches < options.most_batches) {
    const Tensor signs = random_signs(options.batch, problem.bits(), random, result.batches * options.batch);
    tape.clear();
    const WatchedParameters watched = tape.watch(parameters);
    const Tensor output = network([&](int i) -> const Tensor& { return watched[i]; }, unpacked(signs, problem.bits(), DType::f32));
    const Tensor loss = mse_loss(output, targets_of(signs, problem.support, DType::f32));
    adam->step(parameters, watched, tape.backward(loss));
    ++result.batches;
    if (after_batch) after_batch();
    if (result.batches % look_every == 0 && look()) return result;
  }
  look();
  return result;
}

LinearResult train_linear(const Problem& problem, index_t samples, std::uint64_t seed) {
  const auto features = [&](index_t rows, std::uint64_t part) {
    const Tensor signs = random_signs(rows, problem.bits(), Random(seed, linear_stream).fork(part));
    const double share = std::sqrt(static_cast<double>(problem.bits()));  // of variance 1 / M a coordinate
    return std::pair(matmul(unpacked(signs, problem.bits(), DType::f64), problem.positions) / share, targets_of(signs, problem.support, DType::f64));
  };
  const auto [x, y] = features(samples, 0);
  const auto [test_x, test_y] = features(test_rows, 1);
  ParameterSet p;
  p.add("weight", Tensor::zeros({1, problem.embedding()}, DType::f64));
  p.add("bias", Tensor::zeros({1}, DType::f64));
  const auto adam = make_adam({.learning_rate = 0.01});
  Tape tape;
  for (int step = 0; step < 500; ++step) {
    tape.clear();
    const WatchedParameters w = tape.watch(p);
    adam->step(p, w, tape.backward(mse_loss(reshape(linear(x, w[0], {.bias = w[1]}), {samples}), y)));
  }
  const Score at = score(reshape(linear(test_x, p[0].value, {.bias = p[1].value}), {test_rows}), test_y);
  return {at.loss, at.accuracy};
}

}  // namespace gradus::parity
