// Maps from scores to weights: published values, laws, masks, temperatures and the choice by name.
#include <cmath>

#include "engine/autograd/gradcheck.hpp"
#include "engine/core/random.hpp"
#include "engine/ops/elementwise.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/maps.hpp"
#include "engine/ops/matmul.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"
#include "tests/reference.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

struct NamedMap {
  const char* name;
  Tensor (*map)(const Tensor&, const MapOptions&);
};
// Those that put a row on the simplex.
const NamedMap simplex_maps[] = {
    {"softmax", softmax},
    {"sparsemax", sparsemax},
    {"entmax 1.5", [](const Tensor& x, const MapOptions& o) { return entmax(x, 1.5, o); }},
    {"entmax 1.1", [](const Tensor& x, const MapOptions& o) { return entmax(x, 1.1, o); }},
    {"entmax 4", [](const Tensor& x, const MapOptions& o) { return entmax(x, 4, o); }},
    {"normmax 2", [](const Tensor& x, const MapOptions& o) { return normmax(x, 2, o); }},
    {"normmax 1000", [](const Tensor& x, const MapOptions& o) { return normmax(x, 1000, o); }},
    {"normmax inf", [](const Tensor& x, const MapOptions& o) { return normmax(x, inf, o); }},
    {"gumbel_softmax",
     [](const Tensor& x, const MapOptions& o) { return gumbel_softmax(x, {.axis = o.axis, .inverse_temperature = o.inverse_temperature, .mask = o.mask}); }},
    {"gumbel_softmax hard", [](const Tensor& x, const MapOptions& o) {
       return gumbel_softmax(x, {.axis = o.axis, .inverse_temperature = o.inverse_temperature, .mask = o.mask, .hard = true});
     }}};

}  // namespace

TEST_CASE("maps_give_the_published_weights", "[maps]") {
  const Tensor three = f64({-2, 0, 0.5}), five = f64({0, 0.25, 0.5, 0.75, 1});
  const auto close = [](const Tensor& y, const Nested& expected) { return max_difference(y, f64(expected)) < 5.1e-5; };
  CHECK(close(softmax(three), {0.0486, 0.3592, 0.5922}));
  CHECK(close(sparsemax(three), {0, 0.25, 0.75}));
  CHECK(close(entmax(three, 1.5), {0, 0.3260, 0.6740}));
  CHECK(close(normmax(three, 2), {0, 0.3110, 0.6890}));
  CHECK(close(normmax(three, 1000), {0, 0.4997, 0.5003}));
  CHECK(close(normmax(five, 2), {0, 0.0239, 0.1746, 0.3254, 0.4761}));
  CHECK(close(normmax(five, 1000), {0, 0, 0.3330, 0.3334, 0.3336}));
  CHECK(close(normmax(five, inf), {0, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3}));
}

TEST_CASE("maps_and_their_gradients_equal_the_reference", "[maps][reference]") {
  const auto arrays = testing::reference("maps");
  if (arrays.empty()) return;
  const Tensor cotangent = arrays.at("cotangent");
  const auto entmax15 = [](const Tensor& x) { return entmax(x, 1.5); };
  const std::vector<std::tuple<const char*, std::function<Tensor(const Tensor&)>, double>> maps{
      {"softmax", [](const Tensor& x) { return softmax(x); }, 1e-10},
      {"softmax_beta10", [](const Tensor& x) { return softmax(x, {.inverse_temperature = 10.0}); }, 1e-10},
      {"log_softmax", [](const Tensor& x) { return log_softmax(x); }, 1e-10},
      {"sparsemax", [](const Tensor& x) { return sparsemax(x); }, 1e-10},
      {"entmax15", entmax15, 1e-8},
      {"normmax2", [](const Tensor& x) { return normmax(x, 2); }, 1e-8},
      {"normmax5", [](const Tensor& x) { return normmax(x, 5); }, 1e-8},
      {"erf", [](const Tensor& x) { return erf(x); }, 1e-10},
      {"identity", [](const Tensor& x) { return apply_map(x, {.kind = MapKind::identity}); }, 1e-10},
      {"rectified_quadratic", [](const Tensor& x) { return rectified_quadratic(x); }, 1e-10}};
  for (const DType dtype : {DType::f64, DType::f32})
    for (const auto& [name, map, tolerance] : maps) {
      INFO(name << " " << name_of(dtype));
      const Tensor x = cast(arrays.at("input"), dtype);
      const double allowed = dtype == DType::f64 ? tolerance : 1e-5;
      CHECK(testing::deviation(map(x), arrays.at(name)) <= allowed);
      CHECK(testing::deviation(gradient(map, x, cast(cotangent, dtype)), arrays.at(std::string(name) + "_grad")) <= allowed);
    }
  CHECK(testing::deviation(hardmax(arrays.at("input")), arrays.at("hardmax")) <= 1e-10);
}

TEST_CASE("what_arrives_at_a_weight_of_zero_is_not_read", "[maps]") {
  const Tensor x = f64({{3, 0, 2.8, -5}}), quiet = f64({{0.5, 0, -1, 0}}), loud = f64({{0.5, inf, -1, not_a_number}});
  const auto squared = [](const Tensor& t) { return normmax(t, 2); };
  const auto between = [](const Tensor& t) { return entmax(t, 1.5); };
  const auto sparse = [](const Tensor& t) { return sparsemax(t); };
  for (const auto& f : std::vector<std::function<Tensor(const Tensor&)>>{sparse, between, squared}) {
    REQUIRE(f(x).at({0, 1}) == 0);
    for (const bool record : {false, true}) CHECK(equal(gradient(f, x, loud, record), gradient(f, x, quiet, record)));
  }
}

TEST_CASE("map_row_all_masked_gives_zeros_and_no_gradient", "[maps][edge]") {
  const Tensor x = f64({{1, 2, 3, 4}, {-inf, -inf, -inf, -inf}, {0, -1, 5, 2}}), nan_row = f64({{1, 2, 3, 4}, {not_a_number, 0, 0, 0}, {0, -1, 5, 2}});
  const Tensor mask = greater(f64({{1}, {0}, {1}}), 0.0), cotangent = f64({{1, 2, 3, 4}, {inf, not_a_number, 1, 2}, {3, 1, 4, 1}});
  for (const NamedMap& named : simplex_maps) {
    const auto map = named.map;
    const char* const name = named.name;
    INFO(name);
    const auto run = [&](const Tensor& scores, const MapOptions& options) {
      const Tensor y = map(scores, options);
      CHECK(equal(view::select(y, 0, 1), Tensor::zeros({4}, DType::f64)));
      CHECK(all_close(sum(y, {.axes = {-1}}), f64({1, 0, 1}), 1e-14));
      if (std::string_view(name) == "normmax inf") return y;
      const Tensor g = gradient([&](const Tensor& t) { return map(t, options); }, scores, cotangent);
      CHECK(equal(view::select(g, 0, 1), Tensor::zeros({4}, DType::f64)));
      CHECK(std::isfinite(sum(g).item()));
      return y;
    };
    // The same weights whether the row is -inf itself, or a mask says so; what a bool mask drops is not read.
    const Tensor y = run(x, {}), masked = run(nan_row, {.mask = mask});
    CHECK(bit_equal(y, masked));
    CHECK(equal(run(where(mask, nan_row, 1.0), {.mask = f64({{0}, {-inf}, {0}})}), y));
  }
}

TEST_CASE("masked_entries_weigh_nothing_and_the_rest_is_the_truncated_row", "[maps][edge]") {
  const Tensor whole = f64({{0.1, not_a_number, 0.4, 7, 0.2}}), kept = f64({{0.1, 0.4, 0.2}});
  const Tensor mask = greater(f64({1, 0, 1, 0, 1}), 0.0), cotangent = f64({{0.3, inf, -2, 100, 1}}), kept_cotangent = f64({{0.3, -2, 1}});
  const Tensor index = Tensor::of({0, 2, 4}, DType::i64);
  for (const NamedMap& named : simplex_maps) {
    const auto map = named.map;
    const char* const name = named.name;
    if (std::string_view(name).starts_with("gumbel")) continue;  // its noise goes by place
    INFO(name);
    const Tensor y = map(whole, {.inverse_temperature = 2.0, .mask = mask}), expected = map(kept, {.inverse_temperature = 2.0});
    CHECK(all_close(index_select(y, 1, index), expected, 1e-14));
    CHECK(y.at({0, 1}) == 0);
    CHECK(y.at({0, 3}) == 0);
    if (std::string_view(name) == "normmax inf") continue;
    const Tensor g = gradient([&](const Tensor& x) { return map(x, {.inverse_temperature = 2.0, .mask = mask}); }, whole, cotangent);
    const Tensor g_kept = gradient([&](const Tensor& x) { return map(x, {.inverse_temperature = 2.0}); }, kept, kept_cotangent);
    CHECK(all_close(index_select(g, 1, index), g_kept, 1e-12, 1e-14));
    CHECK(g.at({0, 1}) == 0);
    CHECK(g.at({0, 3}) == 0);
  }
}

TEST_CASE("an_additive_mask_comes_after_the_temperature", "[maps]") {
  const Tensor x = random_normal({3, 5}, DType::f64, 1), bias = random_normal({5}, DType::f64, 2);
  for (const NamedMap& named : simplex_maps) {
    const auto map = named.map;
    const char* const name = named.name;
    if (std::string_view(name).starts_with("gumbel")) continue;
    INFO(name);
    CHECK(all_close(map(x, {.inverse_temperature = 3.0, .mask = bias}), map(3.0 * x + bias, {}), 1e-12, 1e-14));
  }
  CHECK_THROWS_AS(sparsemax(x, {.mask = Tensor::ones({2, 3, 5}, DType::f64)}), ShapeError);
  CHECK_THROWS_AS(sparsemax(x, {.mask = Tensor::ones({4}, DType::f64)}), ShapeError);
}

TEST_CASE("temperature_scales_the_scores_of_every_map", "[maps][edge]") {
  const Tensor x = random_normal({4, 6}, DType::f64, 1);
  for (const NamedMap& named : simplex_maps) {
    const auto map = named.map;
    const char* const name = named.name;
    INFO(name);
    for (const double beta : {0.1, 0.5, 2.0, 10.0}) {
      const Tensor number = map(x, {.inverse_temperature = beta});
      CHECK(all_close(number, map(x, {.inverse_temperature = Tensor::scalar(beta, DType::f64)}), 1e-12, 1e-13));
      if (!std::string_view(name).starts_with("gumbel")) CHECK(all_close(number, map(beta * x, {}), 1e-12, 1e-13));
    }
    for (const double beta : {0.0, -1.0, not_a_number, inf}) {
      CHECK_THROWS_AS(map(x, {.inverse_temperature = beta}), ValueError);
      CHECK_THROWS_AS(map(x, {.inverse_temperature = Tensor::scalar(beta, DType::f64)}), ValueError);
    }
  }
}

TEST_CASE("sparse_maps_stay_on_the_simplex_for_huge_scores_and_with_minus_infinity", "[maps][edge]") {
  for (const NamedMap& named : simplex_maps) {
    const auto map = named.map;
    const char* const name = named.name;
    INFO(name);
    for (const DType dtype : {DType::f64, DType::f32})
      for (const Nested& row :
           {Nested{0, -inf, 1}, Nested{1e6, 1e6 + 1}, Nested{3e38, -3e38, 3e38}, Nested{-1e30, -1e30}, Nested{5}, Nested{1e-40, 0, -1e-40}}) {
        const Tensor y = cast(map(Tensor::of(row, dtype), {}), DType::f64);
        CHECK(sum(y).item() == Approx(1).epsilon(dtype == DType::f64 ? 1e-14 : 1e-6));
        CHECK(min(y).item() >= 0);
        CHECK(max(y).item() <= 1);
        if (row.children.size() == 3 && row.children[1].value == -inf) CHECK(y.at({1}) == 0);
      }
  }
}

TEST_CASE("nan_or_infinity_makes_its_row_nan_at_every_place", "[maps][edge]") {
  for (const NamedMap& named : simplex_maps) {
    const auto map = named.map;
    const char* const name = named.name;
    INFO(name);
    for (const double poison : {not_a_number, inf})
      for (index_t n = 1; n <= 19; n += 3)
        for (index_t at = 0; at < n; ++at) {
          Tensor x = random_normal({2, n}, DType::f64, 5);
          x.set({1, at}, poison);
          const Tensor y = map(x, {});
          CHECK(std::isfinite(sum(view::select(y, 0, 0)).item()));
          for (index_t i = 0; i < n; ++i) CHECK(std::isnan(y.at({1, i})));
        }
  }
}

TEST_CASE("map_gradients_do_not_depend_on_rank_or_axis", "[maps][edge]") {
  const Tensor x = random_normal({2, 3}, DType::f64, 4), cotangent = random_normal({2, 3}, DType::f64, 5);
  for (const NamedMap& named : simplex_maps) {
    const auto map = named.map;
    const char* const name = named.name;
    if (std::string_view(name) == "normmax inf") continue;
    INFO(name);
    const bool random = std::string_view(name).starts_with("gumbel");
    const auto along = [map](index_t axis) { return [map, axis](const Tensor& t) { return map(t, {.axis = axis}); }; };
    const Tensor expected = gradient(along(-1), x, cotangent);
    CHECK(equal(gradient(along(-1), view::reshape(x, {2, 1, 3}), view::reshape(cotangent, {2, 1, 3})), view::reshape(expected, {2, 1, 3})));
    CHECK(equal(gradient(along(2), view::reshape(x, {1, 2, 3}), view::reshape(cotangent, {1, 2, 3})), view::reshape(expected, {1, 2, 3})));
    if (!random) CHECK(equal(gradient(along(0), view::transpose(x, 0, 1), view::transpose(cotangent, 0, 1)), view::transpose(expected, 0, 1)));
  }
}

TEST_CASE("entmax_lies_between_softmax_and_sparsemax", "[maps]") {
  const Tensor x = random_normal({4, 6}, DType::f64, 9);
  CHECK(bit_equal(entmax(x, 2), sparsemax(x)));
  CHECK(max_difference(entmax(x, 1.0001), softmax(x)) < 1e-3);
  CHECK(max_difference(entmax(x, 2 + 1e-9), sparsemax(x)) < 1e-7);
  CHECK(max_difference(entmax(x, 2 - 1e-9), sparsemax(x)) < 1e-7);
  for (const double alpha : {1.0, 0.5, not_a_number, -inf}) {
    CHECK_THROWS_AS(entmax(x, alpha), ValueError);
    CHECK_THROWS_AS(normmax(x, alpha), ValueError);
  }
  CHECK_THROWS_AS(entmax(x, inf), ValueError);
}

// 1.5-entmax in closed form: with z = x / 2 sorted downwards, tau = mean - sqrt((1 - n var) / n) over the k largest.
TEST_CASE("entmax_of_one_and_a_half_is_its_closed_form", "[maps]") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Tensor x = random_normal({8}, DType::f64, seed) * (0.1 + static_cast<double>(seed));
    std::vector<double> z = (x * 0.5).to_vector<double>(), sorted = z;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    double total = 0, squares = 0, tau = 0;
    for (std::size_t k = 1; k <= sorted.size(); ++k) {
      total += sorted[k - 1];
      squares += sorted[k - 1] * sorted[k - 1];
      const double n = static_cast<double>(k), mean = total / n, root = mean - std::sqrt(std::max(0.0, (1 - (squares - total * mean)) / n));
      if (root <= sorted[k - 1]) tau = root;
    }
    for (double& v : z) v = std::pow(std::max(v - tau, 0.0), 2);
    CHECK(max_difference(entmax(x), Tensor::from(z, {8})) < 1e-10);
  }
}

TEST_CASE("normmax_is_the_maximiser_of_its_definition", "[maps]") {
  const Tensor x = random_normal({6}, DType::f64, 3);
  for (const double alpha : {1.3, 2.0, 7.0}) {
    const auto objective = [&](const Tensor& p) { return sum(p * x).item() - std::pow(sum(pow(p, alpha)).item(), 1 / alpha); };
    const Tensor y = normmax(x, alpha);
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const Tensor p = softmax(random_normal({6}, DType::f64, seed) * 3.0);
      for (const double step : {1e-3, 0.1, 1.0}) CHECK(objective(y * (1 - step) + p * step) <= objective(y) + 1e-15);
    }
  }
}

TEST_CASE("gumbel_noise_is_finite_and_the_hard_choice_follows_softmax", "[maps][edge]") {
  const Tensor noise = add_gumbel(Tensor::zeros({10'000'000}, DType::f32), 1);
  CHECK(std::isfinite(max(noise).item()));
  CHECK(std::isfinite(min(noise).item()));
  CHECK(mean(noise).item() == Approx(0.5772).margin(2e-3));
  const index_t draws = 200'000;
  const Tensor logits = f64({1, 0, -1, -inf});
  const Tensor y = gumbel_softmax(view::expand(logits, {draws, 4}), {.hard = true, .seed = 4});
  const Tensor share = mean(y, {.axes = {0}});
  CHECK(max_difference(share, softmax(logits)) < 5e-3);
  CHECK(equal(sum(y, {.axes = {1}}), Tensor::ones({draws}, DType::f64)));
  CHECK(equal(y, y * y));
  CHECK(!equal(y, gumbel_softmax(view::expand(logits, {draws, 4}), {.hard = true, .seed = 5})));
}

TEST_CASE("gumbel_draws_anew_each_pass_and_replays_on_request", "[maps]") {
  Tape tape({.retain = Retain::all});
  const Tensor x = tape.variable(random_normal({3, 5}, DType::f64, 1));
  const Tensor y = gumbel_softmax(x, {.hard = true});
  const Tensor first = copy(y);
  tape.replay();
  CHECK(equal(tape.value(y), first));
  bool differs = false;
  for (int i = 0; i < 10; ++i) {
    tape.replay({.advance_noise = true});
    differs = differs || !equal(tape.value(y), first);
  }
  CHECK(differs);
}

TEST_CASE("a_map_is_chosen_by_name_with_its_parameters", "[maps]") {
  const Tensor x = random_uniform({3, 5}, DType::f64, 0.1, 2, 6);
  const auto is = [&](const MapSpec& spec, const Tensor& expected) { return equal(apply_map(x, spec), expected); };
  CHECK(is({}, softmax(x)));
  CHECK(is({.kind = MapKind::softmax, .inverse_temperature = 2.0}, softmax(x, {.inverse_temperature = 2.0})));
  CHECK(is({.kind = MapKind::log_softmax}, log_softmax(x)));
  CHECK(is({.kind = MapKind::hardmax, .inverse_temperature = 2.0}, hardmax(x)));
  CHECK(is({.kind = MapKind::sparsemax}, sparsemax(x)));
  CHECK(is({.kind = MapKind::entmax}, entmax(x, 1.5)));
  CHECK(is({.kind = MapKind::entmax, .alpha = 1.2}, entmax(x, 1.2)));
  CHECK(is({.kind = MapKind::normmax, .alpha = 3}, normmax(x, 3)));
  CHECK(is({.kind = MapKind::gumbel_softmax, .hard = true, .seed = 3}, gumbel_softmax(x, {.hard = true, .seed = 3})));
  CHECK(is({.kind = MapKind::normalized_linear, .inverse_temperature = 2.0}, normalized_linear(2.0 * x)));
  CHECK(is({.kind = MapKind::erf, .inverse_temperature = 2.0}, erf(2.0 * x)));
  CHECK(is({.kind = MapKind::identity, .inverse_temperature = 2.0}, 2.0 * x));
  for (int kind = 0; kind <= static_cast<int>(MapKind::identity); ++kind) CHECK(map_kind(name_of(static_cast<MapKind>(kind))) == static_cast<MapKind>(kind));
  CHECK_THROWS_AS(map_kind("sofmax"), ValueError);
  CHECK_THROWS_AS(apply_map(x, {.kind = MapKind::identity, .inverse_temperature = 0.0}), ValueError);
  CHECK(equal(apply_map(view::transpose(x, 0, 1), {}, 0), view::transpose(softmax(x), 0, 1)));
  // A masked entry weighs nothing in the maps that do not normalise, too.
  Tensor poisoned = copy(x);
  poisoned.set({1, 2}, not_a_number);
  const Tensor keep = equal_to(poisoned, poisoned), shift = where(keep, scalar_like(x, 0), scalar_like(x, -inf));
  for (const MapKind kind : {MapKind::hardmax, MapKind::normalized_linear, MapKind::erf, MapKind::identity}) {
    const Tensor y = apply_map(poisoned, {.kind = kind}, -1, keep);
    CHECK(y.at({1, 2}) == 0);
    CHECK(std::isfinite(sum(y).item()));
    CHECK(equal(apply_map(x, {.kind = kind}, -1, shift), y));
  }
}

TEST_CASE("map_jacobians_are_those_of_the_mathematics", "[maps]") {
  const Tensor x = random_normal({2, 4, 3}, DType::f64, 6);
  // Along the middle axis: the Jacobian's rows against differences of the map.
  for (const MapSpec& spec :
       {MapSpec{.kind = MapKind::softmax, .inverse_temperature = 2.0}, MapSpec{.kind = MapKind::log_softmax}, MapSpec{.kind = MapKind::hardmax},
        MapSpec{.kind = MapKind::sparsemax}, MapSpec{.kind = MapKind::entmax}, MapSpec{.kind = MapKind::normmax},
        MapSpec{.kind = MapKind::normmax, .alpha = inf}, MapSpec{.kind = MapKind::normalized_linear}, MapSpec{.kind = MapKind::erf},
        MapSpec{.kind = MapKind::identity, .inverse_temperature = Tensor::scalar(3, DType::f64)}, MapSpec{.kind = MapKind::identity}}) {
    INFO(name_of(spec.kind));
    const Tensor jacobian = map_jacobian(x, spec, 1);
    REQUIRE(jacobian.shape() == Shape{2, 3, 4, 4});
    for (index_t j = 0; j < 4; ++j) {
      Tensor step = Tensor::zeros({2, 4, 3}, DType::f64), entry = view::slice(step, 1, {j, j + 1});
      copy_into(entry, Tensor::scalar(1e-6, DType::f64));
      const Tensor difference = (apply_map(x + step, spec, 1) - apply_map(x - step, spec, 1)) / 2e-6;
      CHECK(all_close(view::select(jacobian, -1, j), view::transpose(difference, 1, 2), 1e-5, 1e-6));
    }
  }
  const Tensor y = softmax(view::select(x, 2, 0));
  const Tensor softmax_jacobian = map_jacobian(view::select(x, 2, 0), {});
  for (index_t i = 0; i < 4; ++i)
    for (index_t j = 0; j < 4; ++j) CHECK(softmax_jacobian.at({0, i, j}) == Approx(y.at({0, i}) * ((i == j ? 1 : 0) - y.at({0, j}))).epsilon(1e-12));
  CHECK(map_jacobian(Tensor::zeros({0, 3}, DType::f64), {}).shape() == Shape{0, 3, 3});
  // Gumbel-softmax: of softmax at scores that are perturbed already.
  CHECK(equal(map_jacobian(x, {.kind = MapKind::gumbel_softmax}), map_jacobian(x, {})));
}
