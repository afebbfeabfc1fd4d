// Distances and cosines: values and what happens where points coincide or vanish.
#include "engine/ops/distance.hpp"

#include "engine/ops/elementwise.hpp"
#include "engine/ops/reduce.hpp"
#include "tests/catch.hpp"
#include "tests/ops/gradient.hpp"

using namespace gradus;
using namespace gradus::testing;

TEST_CASE("cdist measures by the norm it is given", "[distance]") {
  const Tensor a = f64({{0, 0}, {3, -4}}), b = f64({{3, 4}});
  CHECK(equal(cdist(a, b), f64({{5}, {8}})));
  CHECK(equal(cdist(a, b, 2), f64({{5}, {8}})));
  CHECK(equal(cdist(a, b, 1), f64({{7}, {8}})));
  CHECK(equal(cdist(a, b, inf), f64({{4}, {8}})));
  CHECK(std::isnan(cdist(f64({{1, not_a_number, 100}}), f64({{0, 0, 0}}), inf).item()));
  CHECK(std::isnan(cdist(f64({{not_a_number, 1, 100}}), f64({{0, 0, 0}}), 1).item()));
  for (const double p : {0.0, 0.5, 3.0, -1.0, not_a_number}) CHECK_THROWS_AS(cdist(a, b, p), ValueError);
  CHECK_THROWS_AS(cdist(a, f64({{1, 2, 3}})), ShapeError);
  CHECK_THROWS_AS(cdist(a, f64({1, 2})), ShapeError);
  CHECK_THROWS_AS(cdist(a, Tensor::ones({1, 2})), DTypeError);
}

TEST_CASE("distances_of_coincident_points_are_zero_with_gradient_zero", "[distance][edge]") {
  const Tensor twins = f64({{1, 2}, {1, 2}, {4, 6}}), denormal = f64({{0, 0}, {1e-310, 0}}), cotangent = Tensor::ones({3, 3}, DType::f64);
  for (const double p : {1.0, 2.0, inf})
    for (const bool record : {false, true}) {
      INFO("p " << p);
      const auto to_itself = [&](const Tensor& x) { return cdist(x, x, p); };
      const Tensor y = to_itself(twins);
      for (const auto& [i, j] : {std::pair{0, 0}, {0, 1}, {1, 0}, {2, 2}}) CHECK(y.at({i, j}) == 0);
      const Tensor g = gradient(to_itself, twins, cotangent, record);
      CHECK(all_finite(g));
      CHECK(sum(g).item() == 0);
      CHECK(g.at({0, 0}) == g.at({1, 0}));
      // A point at the same place as the only other one feels nothing.
      CHECK(equal(gradient([&](const Tensor& x) { return cdist(x, f64({{1, 2}}), p); }, f64({{1, 2}}), f64({{3}}), record), f64({{0, 0}})));
      CHECK(all_finite(gradient(to_itself, denormal, {}, record)));
    }
}

TEST_CASE("distances_far_from_the_origin_keep_their_digits", "[distance][edge]") {
  const Tensor a = Tensor::of({{1e5, 1e5}}), b = Tensor::of({{1e5 + 1, 1e5}});
  for (const double p : {1.0, 2.0, inf}) {
    CHECK(cdist(a, b, p).item() == Approx(1).epsilon(1e-3));
    CHECK(cdist(a, a, p).item() == 0);
  }
}

TEST_CASE("gradients_of_distances_far_from_the_origin_keep_their_digits", "[distance][edge]") {
  for (const index_t d : {3, 40})
    for (const bool record : {false, true}) {
      const auto gradients = [&](double offset, DType dtype) {
        const Tensor c = on_a_grid({4, d}, offset, dtype, 2);
        return gradient([&](const Tensor& x) { return squared_distance(x, c); }, on_a_grid({5, d}, offset, dtype, 1), on_a_grid({5, 4}, 0, dtype, 3), record);
      };
      const Tensor near = gradients(0, DType::f64), remote = gradients(1e4, DType::f32);
      INFO("d " << d << ", record " << record);
      CHECK(all_close(remote, cast(near, DType::f32), 1e-5, 1e-5));
    }
}

TEST_CASE("ties for the largest coordinate share the gradient", "[distance]") {
  for (const bool record : {false, true}) {
    const auto f = [](const Tensor& x) { return cdist(x, f64({{0, 0, 0}}), inf); };
    CHECK(equal(gradient(f, f64({{2, -2, 1}}), f64({{3}}), record), f64({{1.5, -1.5, 0}})));
  }
}

TEST_CASE("cosines depend on directions alone", "[distance]") {
  const Tensor a = f64({{1, 0}, {3, 4}, {-2, 0}}), b = f64({{1e200, 0}, {0, 1e-200}});
  CHECK(all_close(cosine_similarity(a, b), f64({{1, 0}, {0.6, 0.8}, {-1, 0}}), 1e-14, 1e-14));
  CHECK(all_close(cosine_distance(a, b), f64({{0, 1}, {0.4, 0.2}, {2, 1}}), 1e-14, 1e-14));
  const Tensor x = random_normal({40, 7}, DType::f32, 1), self = cosine_distance(x, x);
  CHECK(min(self).item() >= 0);
  for (index_t i = 0; i < 40; ++i) CHECK(self.at({i, i}) == 0);
}

TEST_CASE("a_vector_whose_coordinates_cancel_is_no_zero_vector", "[distance]") {
  const Tensor x = f64({{1, -1}});
  CHECK(cosine_distance(x, x).item() == 0);
  CHECK(cosine_distance(x, f64({{1, 1}})).item() == Approx(1));
}

TEST_CASE("cosines_of_a_zero_vector_have_gradient_zero", "[distance][edge]") {
  const Tensor zero = f64({{0, 0}}), b = f64({{1, 2}, {0, 0}});
  CHECK(equal(cosine_similarity(zero, b), f64({{0, 0}})));
  CHECK(equal(cosine_distance(zero, b), f64({{1, 1}})));
  for (const auto f : {cosine_similarity, cosine_distance})
    for (const bool record : {false, true}) {
      CHECK(equal(gradient([&](const Tensor& x) { return f(x, b); }, zero, {}, record), zero));
      CHECK(max(abs(gradient([&](const Tensor& x) { return f(zero, x); }, b, {}, record))).item() < 1e-15);
    }
}
