// Attention: reference values, masks, laws, and the fused op against its parts.
#include <cmath>

#include "engine/autograd/gradcheck.hpp"
#include "engine/core/events.hpp"
#include "engine/core/parallel.hpp"
#include "engine/ops/attention.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"
#include "tests/reference.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

Tensor normal(const Shape& shape, std::uint64_t stream, DType dtype = DType::f64) { return random_normal(shape, dtype, 11, stream); }
Tensor truth(const Nested& values) { return greater(f64(values), 0.0); }
// True with probability 0.6.
Tensor coins(const Shape& shape, std::uint64_t stream) { return greater(random_uniform(shape, DType::f64, -0.4, 0.6, 5, stream), 0.0); }

struct Outcome {
  Tensor output, q, k, v;
};
// How attention is run: fused, as its parts, or with a recorded backward.
enum class Path { fused, parts, recorded };
Outcome run(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionSpec& spec, Path path = Path::fused, Tensor cotangent = {}) {
  Tape tape({.expand = path == Path::parts});
  const Tensor a = tape.variable(q), b = tape.variable(k), c = tape.variable(v);
  const Tensor y = attention(a, b, c, spec);
  if (!cotangent.defined()) cotangent = normal(y.shape(), 77, y.dtype());
  const Gradients g = tape.backward(y, {.record = path == Path::recorded, .cotangent = cotangent});
  return {y.detached(), g.of(a).detached(), g.of(b).detached(), g.of(c).detached()};
}
double largest_deviation(const Outcome& a, const Outcome& b) {
  return std::max({testing::deviation(a.output, b.output), testing::deviation(a.q, b.q), testing::deviation(a.k, b.k), testing::deviation(a.v, b.v)});
}
bool all_finite(const Outcome& o) {
  for (const Tensor& t : {o.output, o.q, o.k, o.v})
    for (const double x : cast(t, DType::f64).to_vector<double>())
      if (!std::isfinite(x)) return false;
  return true;
}
Tensor with_rows(const Tensor& x, const std::vector<index_t>& rows, double value) {
  Tensor y = copy(x);
  for (const index_t row : rows) {
    Tensor place = view::slice(y, -2, {row, row + 1});
    copy_into(place, Tensor::scalar(value, x.dtype()));
  }
  return y;
}

const std::vector<MapSpec> maps{{.kind = MapKind::softmax}, {.kind = MapKind::normalized_linear},   {.kind = MapKind::sparsemax},
                                {.kind = MapKind::entmax},  {.kind = MapKind::normmax, .alpha = 2}, {.kind = MapKind::erf},
                                {.kind = MapKind::identity}};
const Score scores[] = {Score::dot, Score::scaled_dot, Score::euclidean};

}  // namespace

TEST_CASE("attention_and_its_gradients_equal_the_reference", "[attention][reference]") {
  const auto arrays = testing::reference("attention");
  if (arrays.empty()) return;
  const std::vector<std::pair<std::string, MapSpec>> kinds{{"softmax", {}},
                                                           {"softmax_beta10", {.inverse_temperature = 10.0}},
                                                           {"sparsemax", {.kind = MapKind::sparsemax}},
                                                           {"entmax15", {.kind = MapKind::entmax}},
                                                           {"normmax2", {.kind = MapKind::normmax, .alpha = 2}},
                                                           {"erf", {.kind = MapKind::erf}},
                                                           {"identity", {.kind = MapKind::identity}},
                                                           {"masked", {}}};
  const Tensor key_mask = view::squeeze(cast(arrays.at("key_mask"), DType::boolean), -2);
  for (const DType dtype : {DType::f64, DType::f32}) {
    const auto array = [&](const char* name) { return cast(arrays.at(name), dtype); };
    for (const auto& [score_name, score] : {std::pair{std::string("dot"), Score::scaled_dot}, std::pair{std::string("euclidean"), Score::euclidean}})
      for (const auto& [map_name, map] : kinds)
        for (const Path path : {Path::fused, Path::parts, Path::recorded}) {
          const std::string name = score_name + "_" + map_name;
          INFO(name << " " << name_of(dtype) << " path " << static_cast<int>(path));
          AttentionSpec spec{.score = score, .map = map};
          if (map_name == "masked") spec.key_mask = key_mask;
          const Outcome got = run(array("q"), array("k"), array("v"), spec, path, array("cotangent"));
          const bool solver = map_name == "entmax15" || map_name == "normmax2";
          const double allowed = dtype == DType::f32 ? 1e-5 : solver ? 1e-8 : 1e-10;
          CHECK(testing::deviation(got.output, arrays.at(name)) <= allowed);
          CHECK(testing::deviation(got.q, arrays.at(name + "_dq")) <= allowed);
          CHECK(testing::deviation(got.k, arrays.at(name + "_dk")) <= allowed);
          CHECK(testing::deviation(got.v, arrays.at(name + "_dv")) <= allowed);
        }
    Tape tape;
    const Tensor q = tape.variable(array("q"));
    const Tensor y = attention(abs(q), abs(array("k")), array("v"), {.map = {.kind = MapKind::normalized_linear}});
    const double allowed = dtype == DType::f32 ? 1e-5 : 1e-10;
    CHECK(testing::deviation(y.detached(), arrays.at("linear_normalised_abs")) <= allowed);
    CHECK(testing::deviation(tape.backward(y, {.cotangent = array("cotangent")}).of(q), arrays.at("linear_normalised_abs_dq")) <= allowed);
  }
}

TEST_CASE("fused_attention_equals_its_parts_for_every_size_and_mask", "[attention]") {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const auto& [tq, tk] : std::vector<std::pair<index_t, index_t>>{{1, 1}, {5, 3}, {64, 128}, {65, 129}, {130, 257}})
      for (const Score score : scores)
        for (const MapKind kind : {MapKind::softmax, MapKind::normalized_linear})
          for (int masks = 0; masks < 16; ++masks) {
            if (tq > 64 && masks % 5 != 0) continue;
            INFO(tq << " x " << tk << " score " << static_cast<int>(score) << " map " << name_of(kind) << " masks " << masks << " " << name_of(dtype));
            // Positive scores for linear weights: their sum is then no difference.
            const bool linear = kind == MapKind::normalized_linear;
            const auto points = [&](const Shape& shape, std::uint64_t stream) {
              const Tensor x = normal(shape, stream, dtype) * 0.7;
              return linear ? abs(x) + 0.1 : x;
            };
            AttentionSpec spec{.score = score, .map = {.kind = kind, .inverse_temperature = 1.3}, .causal = (masks & 1) != 0};
            if (masks & 2) spec.key_mask = coins({2, 1, tk}, 1);
            if (masks & 4) spec.mask = coins({tq, tk}, 2);
            if (masks & 8) spec.mask = (score == Score::euclidean ? -1.0 : 1.0) * abs(normal({3, tq, tk}, 3, dtype));
            const Tensor q = points({2, 3, tq, 5}, 4), k = points({2, 3, tk, 5}, 5), v = normal({2, 3, tk, 4}, 6, dtype);
            const Outcome fused = run(q, k, v, spec);
            CHECK(largest_deviation(fused, run(q, k, v, spec, Path::parts)) < (dtype == DType::f64 ? 1e-11 : 1e-4));
            if (tq < 64) CHECK(largest_deviation(fused, run(q, k, v, spec, Path::recorded)) < (dtype == DType::f64 ? 1e-11 : 1e-4));
          }
}

TEST_CASE("attention_row_all_masked_gives_zeros_and_no_gradient", "[attention][edge]") {
  const Tensor q = normal({3, 2}, 1), k = normal({4, 2}, 2), v = normal({4, 3}, 3);
  const Tensor index = Tensor::of({0, 2}, DType::i64), cotangent = normal({3, 3}, 4);
  for (const MapSpec& map : maps)
    for (const Score score : scores)
      for (const Path path : {Path::fused, Path::parts, Path::recorded}) {
        INFO(name_of(map.kind) << " score " << static_cast<int>(score) << " path " << static_cast<int>(path));
        // With a bool mask not even the query is read; an additive one needs finite scores.
        for (const bool additive : {false, true}) {
          const Tensor mask = additive ? f64({{0}, {-inf}, {0}}) : truth({{1}, {0}, {1}});
          const Outcome got =
              run(additive ? q : with_rows(q, {1}, not_a_number), k, v, {.score = score, .map = map, .mask = mask}, path, with_rows(cotangent, {1}, 3));
          CHECK(all_finite(got));
          CHECK(equal(view::select(got.output, 0, 1), Tensor::zeros({3}, DType::f64)));
          CHECK(equal(view::select(got.q, 0, 1), Tensor::zeros({2}, DType::f64)));
          const Outcome others = run(index_select(q, 0, index), k, v, {.score = score, .map = map}, path, index_select(cotangent, 0, index));
          if (path == Path::fused) CHECK(bit_equal(index_select(got.output, 0, index), others.output));
          CHECK(all_close(index_select(got.output, 0, index), others.output, 1e-14, 1e-15));
          CHECK(all_close(index_select(got.q, 0, index), others.q, 1e-12, 1e-13));
          CHECK(all_close(got.k, others.k, 1e-12, 1e-13));
          CHECK(all_close(got.v, others.v, 1e-12, 1e-13));
        }
      }
}

TEST_CASE("masked_attention_equals_attention_over_the_kept_keys", "[attention][edge]") {
  const Tensor q = normal({2, 6, 3}, 1), k = normal({2, 9, 3}, 2), v = normal({2, 9, 4}, 3), cotangent = normal({2, 6, 4}, 4);
  const Tensor key_mask = truth({1, 0, 1, 1, 0, 0, 1, 1, 0}), kept = Tensor::of({0, 2, 3, 6, 7}, DType::i64), gone = Tensor::of({1, 4, 5, 8}, DType::i64);
  for (const MapSpec& map : maps)
    for (const Score score : scores)
      for (const Path path : {Path::fused, Path::parts, Path::recorded}) {
        INFO(name_of(map.kind) << " score " << static_cast<int>(score) << " path " << static_cast<int>(path));
        const Outcome expected = run(q, index_select(k, 1, kept), index_select(v, 1, kept), {.score = score, .map = map}, path, cotangent);
        // The same as key mask and as general mask, with NaN where nothing may be read.
        for (const bool by_key : {true, false}) {
          AttentionSpec spec{.score = score, .map = map};
          (by_key ? spec.key_mask : spec.mask) = by_key ? key_mask : view::expand(key_mask, {6, 9});
          const Outcome got = run(q, with_rows(k, {1, 4, 5, 8}, not_a_number), with_rows(v, {1, 4, 5, 8}, inf), spec, path, cotangent);
          CHECK(testing::deviation(got.output, expected.output) < 1e-12);
          CHECK(testing::deviation(got.q, expected.q) < 1e-10);
          CHECK(testing::deviation(index_select(got.k, 1, kept), expected.k) < 1e-10);
          CHECK(testing::deviation(index_select(got.v, 1, kept), expected.v) < 1e-12);
          CHECK(equal(index_select(got.k, 1, gone), Tensor::zeros({2, 4, 3}, DType::f64)));
          CHECK(equal(index_select(got.v, 1, gone), Tensor::zeros({2, 4, 4}, DType::f64)));
        }
      }
}

TEST_CASE("causal_attention_sees_the_past_only", "[attention][edge]") {
  const index_t t = 7;
  const Tensor q = normal({t, 3}, 1), k = normal({t, 3}, 2), v = normal({t, 2}, 3);
  for (const MapSpec& map : maps)
    for (const Score score : scores)
      for (const bool expand : {false, true}) {
        INFO(name_of(map.kind) << " score " << static_cast<int>(score) << " expand " << expand);
        const AttentionSpec spec{.score = score, .map = map, .causal = true};
        // NaN in key and value 4 shows in no query before.
        Tape tape({.expand = expand});
        const Tensor on_tape = tape.variable(q);
        const Tensor y = attention(on_tape, with_rows(k, {4}, not_a_number), with_rows(v, {4}, not_a_number), spec);
        const Tensor got = y.detached(), g = tape.backward(y, {.cotangent = normal({t, 2}, 5)}).of(on_tape);
        for (index_t i = 0; i < t; ++i) {
          if (i >= 4) {
            CHECK(std::isnan(got.at({i, 0})));
            continue;
          }
          const Tensor expected =
              attention(view::slice(q, 0, {i, i + 1}), view::slice(k, 0, {0, i + 1}), view::slice(v, 0, {0, i + 1}), {.score = score, .map = map});
          CHECK(testing::deviation(view::slice(got, 0, {i, i + 1}), expected) < 1e-12);
          CHECK(std::isfinite(g.at({i, 0})));
        }
      }
}

TEST_CASE("fused_attention_does_not_read_masked_keys_across_blocks", "[attention][edge]") {
  const index_t tq = 70, tk = 300;
  std::vector<index_t> gone;
  for (index_t j = 100; j < 290; ++j) gone.push_back(j);
  const Tensor q = normal({tq, 4}, 1), k = normal({tk, 4}, 2), v = normal({tk, 3}, 3);
  const Tensor mask = equal_to(k, with_rows(k, gone, 1e9)), key_mask = view::select(mask, 1, 0);
  for (const Score score : {Score::dot, Score::euclidean})
    for (const MapKind kind : {MapKind::softmax, MapKind::normalized_linear}) {
      const AttentionSpec spec{.score = score, .map = {.kind = kind}, .key_mask = key_mask};
      const Outcome poisoned = run(q, with_rows(k, gone, not_a_number), with_rows(v, gone, not_a_number), spec), clean = run(q, k, v, spec);
      CHECK(all_finite(poisoned));
      CHECK(largest_deviation(poisoned, clean) < 1e-12);
    }
}

TEST_CASE("an_additive_mask_propagates_and_has_a_gradient", "[attention]") {
  const Tensor q = normal({2, 3, 4}, 1), k = normal({2, 5, 4}, 2), v = normal({2, 5, 3}, 3), bias = normal({3, 5}, 4), cotangent = normal({2, 3, 3}, 5);
  std::vector<Tensor> gradients;
  for (const bool expand : {false, true}) {
    Tape tape({.expand = expand});
    const Tensor b = tape.variable(bias);
    const Tensor y = attention(q, k, v, {.mask = b});
    gradients.push_back(tape.backward(y, {.cotangent = cotangent}).of(b));
    CHECK(testing::deviation(y.detached(), matmul(softmax(matmul(q, transpose(k)) / 2 + bias), v)) < 1e-13);
  }
  CHECK(gradients[0].shape() == Shape{3, 5});
  CHECK(testing::deviation(gradients[0], gradients[1]) < 1e-12);
  Tensor poisoned = copy(bias);
  poisoned.set({1, 2}, not_a_number);
  const Tensor y = attention(q, k, v, {.mask = poisoned});
  CHECK(std::isnan(y.at({0, 1, 0})));
  CHECK(std::isfinite(y.at({0, 0, 0})));
}

TEST_CASE("a_value_of_weight_zero_reaches_no_score", "[attention][edge]") {
  const Tensor q = normal({2, 3}, 1), k = normal({4, 3}, 2), v = with_rows(normal({4, 2}, 3), {1}, inf), mask = f64({{0, -inf, 0, 0}});
  const Outcome parts = run(q, k, v, {.mask = mask}, Path::parts), recorded = run(q, k, v, {.mask = mask}, Path::recorded);
  CHECK(all_finite(parts.q));
  CHECK(testing::deviation(recorded.q, parts.q) < 1e-13);
  CHECK(testing::deviation(recorded.k, parts.k) < 1e-13);
}

TEST_CASE("a_nan_shows_in_the_output_of_its_query_at_every_place", "[attention][edge]") {
  for (const index_t tk : {1, 3, 17, 67, 131})
    for (index_t at = 0; at < tk; at += 5) {
      const Tensor q = normal({3, 2}, 1), k = normal({tk, 2}, 2), v = normal({tk, 2}, 3);
      for (const double value : attention(q, with_rows(k, {at}, not_a_number), v).to_vector<double>()) CHECK(std::isnan(value));
      CHECK(std::isnan(attention(q, k, with_rows(v, {at}, not_a_number)).at({1, 1})));
      CHECK(std::isnan(attention(with_rows(q, {2}, not_a_number), k, v).at({2, 0})));
    }
}

TEST_CASE("gradients_of_euclidean_attention_far_from_the_origin_keep_their_digits", "[attention]") {
  for (const Path path : {Path::fused, Path::parts, Path::recorded})
    for (const bool masked : {false, true})
      for (const index_t items : {1, 20}) {
        const auto outcome = [&](double offset, DType dtype) {
          const auto points = [&](index_t rows, double at, std::uint64_t seed) { return on_a_grid({items, rows, 8}, at, dtype, seed); };
          const AttentionSpec spec{.score = Score::euclidean, .key_mask = masked ? booleans({1, 0, 1, 1, 1, 0, 1}) : Tensor()};
          return run(points(6, offset, 1), points(7, offset, 2), points(7, 0, 3), spec, path, points(6, 0, 4));
        };
        const Outcome near = outcome(0, DType::f64), far = outcome(1e4, DType::f32);
        INFO(static_cast<int>(path) << ", masked " << masked << ", items " << items);
        for (const auto& [n, f] : {std::pair{near.q, far.q}, std::pair{near.k, far.k}}) CHECK(testing::deviation(cast(n, DType::f32), f) <= 1e-4);
      }
}

TEST_CASE("attention_of_huge_scores_is_finite", "[attention][edge]") {
  for (const double size : {1e3, 1e15, 1e30})
    for (const Score score : {Score::dot, Score::euclidean}) {
      const Tensor k = normal({200, 2}, 2, DType::f32);
      const Outcome got = run(normal({4, 2}, 1, DType::f32) * size, k, normal({200, 3}, 3, DType::f32), {.score = score});
      if (score == Score::dot || size < 1e19) CHECK(all_finite(got));
    }
  // Equal scores of any size share the weight.
  const Tensor v = normal({150, 2}, 3);
  const Tensor y = attention(Tensor::full({1, 1}, 1e150, DType::f64), Tensor::full({150, 1}, 1e150, DType::f64), v);
  CHECK(all_close(y, mean(v, {.axes = {0}, .keep = true}), 1e-12));
}

TEST_CASE("attention_scores_follow_their_definitions_and_temperature", "[attention][edge]") {
  const Tensor q = normal({3, 4}, 1), k = normal({5, 4}, 2), v = normal({5, 2}, 3), products = matmul(q, transpose(k));
  const Tensor distances = sum(square(unsqueeze(q, 1) - unsqueeze(k, 0)), {.axes = {-1}});
  for (const double beta : {0.1, 1.0, 10.0}) {
    const MapSpec number{.inverse_temperature = beta}, tensor{.inverse_temperature = Tensor::scalar(beta, DType::f64)};
    for (const MapSpec& map : {number, tensor}) {
      CHECK(testing::deviation(attention(q, k, v, {.score = Score::dot, .map = map}), matmul(softmax(beta * products), v)) < 1e-13);
      CHECK(testing::deviation(attention(q, k, v, {.map = map}), matmul(softmax(beta / 2 * products), v)) < 1e-13);
      CHECK(testing::deviation(attention(q, k, v, {.score = Score::euclidean, .map = map}), matmul(softmax(-beta * distances), v)) < 1e-13);
    }
  }
  for (const MapSpec& map : maps)
    for (const double beta : {0.0, -1.0, not_a_number, inf}) {
      MapSpec wrong = map;
      wrong.inverse_temperature = beta;
      CHECK_THROWS_AS(attention(q, k, v, {.map = wrong}), ValueError);
      wrong.inverse_temperature = Tensor::scalar(beta, DType::f64);
      CHECK_THROWS_AS(attention(q, k, v, {.map = wrong}), ValueError);
    }
}

TEST_CASE("heads_split_and_join_the_last_axis", "[attention]") {
  const Tensor q = normal({2, 3, 8}, 1), k = normal({2, 5, 8}, 2), v = normal({2, 5, 12}, 3);
  const auto split = [](const Tensor& x, index_t t, index_t d) { return view::transpose(view::reshape(x, {2, t, 4, d}), 1, 2); };
  const Tensor key_mask = coins({2, 5}, 1), mask = coins({4, 3, 5}, 2);
  for (const MapSpec& map : maps) {
    INFO(name_of(map.kind));
    const Tensor got = attention(q, k, v, {.map = map, .key_mask = key_mask, .mask = mask, .heads = 4});
    const Tensor apart = attention(split(q, 3, 2), split(k, 5, 2), split(v, 5, 3), {.map = map, .key_mask = view::reshape(key_mask, {2, 1, 5}), .mask = mask});
    CHECK(bit_equal(got, view::reshape(copy(view::transpose(apart, 1, 2)), {2, 3, 12})));
  }
  const AttentionResult result = attention_with_weights(q, k, v, {.key_mask = key_mask, .heads = 4});
  CHECK(result.weights.shape() == Shape{2, 4, 3, 5});
  CHECK(testing::deviation(result.output, attention(q, k, v, {.key_mask = key_mask, .heads = 4})) < 1e-13);
}

TEST_CASE("weights_are_returned_as_the_map_gave_them", "[attention]") {
  const Tensor q = normal({2, 3, 4}, 1), k = normal({2, 5, 4}, 2), v = normal({2, 5, 3}, 3), mask = coins({3, 5}, 1);
  for (const MapSpec& map : maps) {
    INFO(name_of(map.kind));
    Tape tape;
    const Tensor on_tape = tape.variable(q);
    const AttentionResult result = attention_with_weights(on_tape, k, v, {.map = map, .mask = mask, .causal = true});
    CHECK(testing::deviation(result.output.detached(), attention(q, k, v, {.map = map, .mask = mask, .causal = true})) < 1e-13);
    CHECK(testing::deviation(matmul(result.weights.detached(), v), result.output.detached()) < 1e-13);
    CHECK(result.weights.on_tape());
    CHECK(result.weights.at({0, 0, 1}) == 0);
  }
}

TEST_CASE("attention_dropout_is_the_same_fused_and_in_parts_and_new_each_pass", "[attention]") {
  const index_t tq = 70, tk = 140;
  const Tensor q = normal({2, tq, 4}, 1), k = normal({2, tk, 4}, 2), v = normal({2, tk, 3}, 3);
  for (const MapKind kind : {MapKind::softmax, MapKind::normalized_linear}) {
    const AttentionSpec spec{.map = {.kind = kind, .inverse_temperature = 0.1}, .mask = abs(normal({tq, tk}, 4)) + 0.5, .dropout = 0.3, .dropout_seed = 9};
    CHECK(largest_deviation(run(q, k, v, spec), run(q, k, v, spec, Path::parts)) < 1e-11);
    CHECK(largest_deviation(run(q, k, v, spec), run(q, k, v, spec, Path::recorded)) < 1e-11);
    AttentionSpec other = spec, none = spec;
    other.dropout_seed = 10;
    none.dropout = 0;
    CHECK(!equal(attention(q, k, v, spec), attention(q, k, v, other)));
    CHECK(!equal(attention(q, k, v, spec), attention(q, k, v, none)));
  }
  // Kept weights are scaled up, so that the mean stays.
  const Tensor ones = Tensor::ones({2000, 1}, DType::f64);
  CHECK(mean(attention(normal({50, 1}, 1), normal({2000, 1}, 2), ones, {.map = {.inverse_temperature = 0.01}, .dropout = 0.3})).item() ==
        Approx(1).margin(0.01));
  Tape tape({.retain = Retain::all});
  const Tensor x = tape.variable(q);
  const Tensor y = attention(x, k, v, {.dropout = 0.5});
  const Tensor first = copy(y.detached());
  tape.replay();
  CHECK(equal(tape.value(y), first));
  tape.replay({.advance_noise = true});
  CHECK(!equal(tape.value(y), first));
}

TEST_CASE("attention_is_the_same_for_any_number_of_threads", "[attention]") {
  const Tensor q = normal({3, 150, 8}, 1, DType::f32), k = normal({3, 300, 8}, 2, DType::f32), v = normal({3, 300, 5}, 3, DType::f32);
  const int before = thread_count();
  for (const Score score : {Score::dot, Score::euclidean}) {
    set_thread_count(1);
    const Outcome expected = run(q, k, v, {.score = score, .causal = true, .dropout = 0.1});
    for (const int threads : {2, 4}) {
      set_thread_count(threads);
      const Outcome got = run(q, k, v, {.score = score, .causal = true, .dropout = 0.1});
      CHECK(bit_equal(got.output, expected.output));
      CHECK(bit_equal(got.q, expected.q));
      CHECK(bit_equal(got.k, expected.k));
      CHECK(bit_equal(got.v, expected.v));
    }
  }
  set_thread_count(before);
}

TEST_CASE("attention_of_many_items_has_the_bits_of_few", "[attention]") {
  const Tensor q = normal({17, 70, 4}, 1), k = normal({17, 140, 4}, 2), v = normal({17, 140, 3}, 3), cotangent = normal({17, 70, 3}, 4);
  const Tensor beta = Tensor::scalar(0.8, DType::f64), mask = coins({70, 140}, 5);
  for (const Score score : {Score::dot, Score::euclidean}) {
    const auto of = [&](index_t first, index_t last) {
      const auto part = [&](const Tensor& t) { return view::slice(t, 0, {first, last}); };
      Tape tape;
      const Tensor b = tape.variable(beta), a = tape.variable(part(q)), c = tape.variable(part(k)), d = tape.variable(part(v));
      const Tensor y = attention(a, c, d, {.score = score, .map = {.inverse_temperature = b}, .mask = mask, .causal = true});
      const Gradients g = tape.backward(y, {.cotangent = part(cotangent)});
      return std::pair{Outcome{y.detached(), g.of(a), g.of(c), g.of(d)}, g.of(b).item()};
    };
    const auto [many, d_beta] = of(0, 17);
    const auto [few, d_first] = of(0, 9);
    const auto [rest, d_rest] = of(9, 17);
    const auto same = [](const Tensor& all, const Tensor& first, const Tensor& last) {
      return bit_equal(view::slice(all, 0, {0, 9}), first) && bit_equal(view::slice(all, 0, {9, 17}), last);
    };
    CHECK(same(many.output, few.output, rest.output));
    CHECK(same(many.q, few.q, rest.q));
    CHECK(same(many.k, few.k, rest.k));
    CHECK(same(many.v, few.v, rest.v));
    CHECK(d_beta == Approx(d_first + d_rest).epsilon(1e-12));
  }
}

TEST_CASE("fused_attention_holds_no_matrix_of_weights", "[attention]") {
  const index_t t = 3000;
  const std::int64_t matrix = t * t * 4;
  for (const MapKind kind : {MapKind::softmax, MapKind::normalized_linear}) {
    const Tensor q = abs(normal({t, 8}, 1, DType::f32)), k = abs(normal({t, 8}, 2, DType::f32)), v = normal({t, 8}, 3, DType::f32);
    MemoryPool::instance().reset_peak();
    const std::int64_t before = MemoryPool::instance().stats().live_bytes;
    (void)run(q, k, v, {.map = {.kind = kind}, .causal = true});
    CHECK(MemoryPool::instance().stats().peak_bytes - before < matrix / 8);
  }
}

TEST_CASE("an_expanded_tape_shows_the_parts_of_attention", "[attention]") {
  Tape tape({.expand = true});
  const Tensor q = tape.variable(normal({3, 4}, 1));
  (void)attention(q, normal({5, 4}, 2), normal({5, 2}, 3), {});
  std::vector<std::string> names;
  for (std::int32_t i = 0; i < tape.steps(); ++i) {
    names.emplace_back(tape.step(i).op.name);
    CHECK(tape.step(i).scope.starts_with("attention"));
  }
  CHECK(std::count(names.begin(), names.end(), "matmul") == 2);
  CHECK(std::count(names.begin(), names.end(), "attention") == 0);
  Tape fused;
  (void)attention(fused.variable(normal({3, 4}, 1)), normal({5, 4}, 2), normal({5, 2}, 3), {});
  CHECK(fused.steps() == 1);
}

TEST_CASE("a_query_whose_linear_weights_sum_to_zero_gives_zero_and_is_counted", "[attention][edge]") {
  const Tensor q = f64({{1, 0}, {0, 1}}), k = f64({{1, 2}, {-1, 3}}), v = f64({{1, 2}, {3, 5}});
  for (const Path path : {Path::fused, Path::parts, Path::recorded}) {
    const auto before = event_count(Event::zero_weight_row);
    const Outcome got = run(q, k, v, {.score = Score::dot, .map = {.kind = MapKind::normalized_linear}}, path);
    if (path != Path::parts) CHECK(event_count(Event::zero_weight_row) > before);
    CHECK(equal(view::select(got.output, 0, 0), Tensor::zeros({2}, DType::f64)));
    CHECK(equal(view::select(got.q, 0, 0), Tensor::zeros({2}, DType::f64)));
    CHECK(got.output.at({1, 0}) == Approx(0.4 * 1 + 0.6 * 3));
    CHECK(all_finite(got));
  }
}

TEST_CASE("attention_takes_every_map_and_draws_gumbel_noise_anew", "[attention]") {
  const Tensor q = normal({4, 3}, 1), k = normal({6, 3}, 2), v = normal({6, 2}, 3);
  CHECK(equal(attention(q, k, v, {.map = {.kind = MapKind::hardmax}}), matmul(hardmax(matmul(q, transpose(k))), v)));
  Tape tape({.retain = Retain::all});
  const Tensor x = tape.variable(q);
  const AttentionResult hard = attention_with_weights(x, k, v, {.map = {.kind = MapKind::gumbel_softmax, .hard = true}});
  const Tensor first = copy(hard.weights.detached());
  CHECK(equal(sum(first, {.axes = {-1}}), Tensor::ones({4}, DType::f64)));
  CHECK(equal(first * first, first));
  bool differs = false;
  for (int i = 0; i < 5; ++i) {
    tape.replay({.advance_noise = true});
    differs = differs || !equal(tape.value(hard.weights), first);
  }
  CHECK(differs);
}

TEST_CASE("attention_refuses_what_does_not_fit", "[attention]") {
  const Tensor q = normal({2, 3, 4}, 1), k = normal({2, 5, 4}, 2), v = normal({2, 5, 3}, 3);
  CHECK_THROWS_AS(attention(q, normal({2, 5, 3}, 1), v), ShapeError);
  CHECK_THROWS_AS(attention(q, k, normal({2, 4, 3}, 1)), ShapeError);
  CHECK_THROWS_AS(attention(q, normal({3, 5, 4}, 1), v), ShapeError);
  CHECK_THROWS_AS(attention(normal({4}, 1), k, v), ShapeError);
  CHECK_THROWS_AS(attention(q, cast(k, DType::f32), v), DTypeError);
  CHECK_THROWS_AS(attention(q, k, v, {.key_mask = Tensor::ones({2, 5}, DType::f64)}), DTypeError);
  CHECK_THROWS_AS(attention(q, k, v, {.key_mask = coins({2, 4}, 1)}), ShapeError);
  CHECK_THROWS_AS(attention(q, k, v, {.mask = coins({5}, 1)}), ShapeError);
  CHECK_THROWS_AS(attention(q, k, v, {.mask = coins({7, 2, 3, 5}, 1)}), ShapeError);
  CHECK_THROWS_AS(attention(q, k, v, {.mask = Tensor::ones({3, 5}, DType::f32)}), DTypeError);
  CHECK_THROWS_AS(attention(q, k, v, {.map = {.kind = MapKind::log_softmax}}), ValueError);
  CHECK_THROWS_AS(attention(q, k, v, {.map = {.kind = MapKind::entmax, .alpha = 1}}), ValueError);
  CHECK_THROWS_AS(attention(q, k, v, {.heads = 3}), ShapeError);
  CHECK_THROWS_AS(attention(q, k, v, {.heads = 0}), ShapeError);
  CHECK_THROWS_AS(attention(q, k, v, {.map = {.inverse_temperature = Tensor::ones({1}, DType::f64)}}), ShapeError);
  Tape tape;
  const Tensor x = tape.variable(q);
  for (const double p : {-0.1, 1.0, not_a_number, inf}) CHECK_THROWS_AS(attention(x, k, v, {.dropout = p}), ValueError);
  CHECK(tape.steps() == 0);
}
