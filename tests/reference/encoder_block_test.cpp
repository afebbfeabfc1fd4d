// A pre-norm encoder block with a causal mask and cross entropy: the gradients of its 16 parameters and ten steps of AdamW.
#include <cmath>
#include <limits>

#include "engine/ops/loss.hpp"
#include "tests/reference/arrays.hpp"
#include "tests/reference/layers.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

const std::vector<std::string> names{"emb",   "pos",   "ln1_w", "ln1_b", "qkv_w", "qkv_b", "o_w",   "o_b",
                                     "ln2_w", "ln2_b", "f1_w",  "f1_b",  "f2_w",  "f2_b",  "rms_w", "head_w"};
constexpr index_t heads = 4;

// True above the diagonal: what a token may not look at.
Tensor future(index_t tokens) {
  Tensor mask = Tensor::zeros({tokens, tokens}, DType::boolean);
  for (index_t i = 0; i < tokens; ++i)
    for (index_t j = i + 1; j < tokens; ++j) mask.set({i, j}, 1);
  return mask;
}

Tensor self_attention(const WatchedParameters& p, const Tensor& y) {
  const index_t batch = y.size(0), tokens = y.size(1), width = y.size(2), head = width / heads;
  const Tensor qkv = permute(reshape(linear_layer(y, p["qkv_w"], p["qkv_b"]), {batch, tokens, 3, heads, head}), {2, 0, 3, 1, 4});
  const Tensor scores = matmul(select(qkv, 0, 0), transpose(select(qkv, 0, 1))) / std::sqrt(static_cast<double>(head));
  const Tensor weights = softmax(where(future(tokens), -std::numeric_limits<double>::infinity(), scores));
  const Tensor values = reshape(transpose(matmul(weights, select(qkv, 0, 2)), 1, 2), {batch, tokens, width});
  return linear_layer(values, p["o_w"], p["o_b"]);
}

Tensor loss_of(const WatchedParameters& p, const Tensor& ids, const Tensor& targets) {
  Tensor h = embedding(p["emb"], ids) + p["pos"];
  h = h + self_attention(p, plain_layer_norm(h, p["ln1_w"], p["ln1_b"], 1e-5));
  const Tensor y = plain_layer_norm(h, p["ln2_w"], p["ln2_b"], 1e-5);
  h = h + linear_layer(plain_gelu(linear_layer(y, p["f1_w"], p["f1_b"])), p["f2_w"], p["f2_b"]);
  return cross_entropy(matmul(plain_rms_norm(h, p["rms_w"], 1e-6), transpose(p["head_w"])), targets);
}

void compare(DType dtype) {
  const Arrays arrays("encoder_block", dtype);
  if (!arrays.present()) return;
  const Tensor ids = arrays["ids"], targets = arrays["targets"];
  ParameterSet parameters;
  for (const std::string& name : names) parameters.add(name, copy(arrays[name]));
  Tape tape;
  const WatchedParameters watched = tape.watch(parameters);
  const Tensor loss = loss_of(watched, ids, targets);
  arrays.check("loss", loss);
  const Gradients gradients = tape.backward(loss);
  for (int i = 0; i < parameters.size(); ++i) arrays.check(parameters[i].name + "_grad", gradients.of(watched[i]));

  const auto adamw = make_adamw({.learning_rate = 0.01, .weight_decay = 0.1});
  arrays.check("adamw_loss_curve", loss_curve(parameters, *adamw, 10, [&](const WatchedParameters& w) { return loss_of(w, ids, targets); }));
}

}  // namespace

TEST_CASE("the_encoder_block_its_gradients_and_ten_steps_of_adamw_are_the_reference_s", "[reference]") {
  compare(DType::f64);
  compare(DType::f32);
}
