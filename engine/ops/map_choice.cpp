// Maps by name: what attention and the step-by-step tools choose from.
#include <array>

#include "engine/core/text.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/map_rows.hpp"
#include "engine/ops/maps.hpp"

namespace gradus {
namespace {

constexpr std::array<const char*, 10> names{"softmax", "log_softmax",    "hardmax",           "sparsemax", "entmax",
                                            "normmax", "gumbel_softmax", "normalized_linear", "erf",       "identity"};

// beta x + mask, with 0 where that is masked: for maps in which a score of 0 is a weight of 0.
Tensor zero_where_masked(const char* op, const Tensor& x, const MapOptions& options) {
  Tensor scores = define::scaled_scores(op, x, options.inverse_temperature);
  if (!options.mask.defined()) return scores;
  const define::MapScores masked = define::map_scores(op, scores, {.axis = options.axis, .mask = options.mask});
  return where(define::is_negative_infinity(masked.x), 0.0, masked.x);
}

}  // namespace

const char* name_of(MapKind kind) noexcept { return names[static_cast<std::size_t>(kind)]; }

MapKind map_kind(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (name == names[i]) return static_cast<MapKind>(i);
  throw ValueError("map", cat("no map named '", name, "'"), suggest_names(name, std::vector<std::string>(names.begin(), names.end())));
}

Tensor apply_map(const Tensor& scores, const MapSpec& spec, index_t axis, const Tensor& mask) {
  const MapOptions options{.axis = axis, .inverse_temperature = spec.inverse_temperature, .mask = mask};
  define::require_positive(name_of(spec.kind), "the inverse temperature", spec.inverse_temperature.value());
  switch (spec.kind) {
    case MapKind::softmax: return softmax(scores, options);
    case MapKind::log_softmax: return log_softmax(scores, options);
    case MapKind::sparsemax: return sparsemax(scores, options);
    case MapKind::entmax: return entmax(scores, spec.alpha, options);
    case MapKind::normmax: return normmax(scores, spec.alpha, options);
    case MapKind::gumbel_softmax:
      return gumbel_softmax(scores, {.axis = axis, .inverse_temperature = spec.inverse_temperature, .mask = mask, .hard = spec.hard, .seed = spec.seed});
    case MapKind::hardmax: return hardmax(define::map_scores("hardmax", scores, options).x, axis);
    case MapKind::normalized_linear: return normalized_linear(zero_where_masked("normalized_linear", scores, options), axis);
    case MapKind::erf: return erf(zero_where_masked("erf", scores, options));
    case MapKind::identity: return zero_where_masked("identity", scores, options);
  }
  throw ValueError("map", cat("kind ", static_cast<int>(spec.kind)), "use one of MapKind");
}

Tensor map_jacobian(const Tensor& scores, const MapSpec& spec, index_t axis_argument, const Tensor& mask) {
  const int axis = normalize_axis(axis_argument, scores.rank(), "map_jacobian");
  const index_t n = scores.shape()[axis];
  MapSpec map = spec;
  if (map.inverse_temperature.is_tensor()) map.inverse_temperature = map.inverse_temperature.tensor().detached();
  if (map.kind == MapKind::gumbel_softmax) map.kind = MapKind::softmax;
  Shape shape = scores.shape();
  shape.erase(axis);
  shape.push_back(n);
  shape.push_back(n);
  Tensor jacobian = Tensor::zeros(shape, scores.dtype());
  if (jacobian.numel() == 0) return jacobian;
  Tape tape;
  const Tensor x = tape.variable(scores.detached());
  const Tensor y = apply_map(x, map, axis, mask.defined() ? mask.detached() : mask);
  if (tape.steps() > 0 && tape.step(tape.steps() - 1).op.gradient == GradientKind::zero) return jacobian;
  // Rows do not mix, so that one pass gives row i of every Jacobian.
  for (index_t i = 0; i < n; ++i) {
    Tensor cotangent = Tensor::zeros(y.shape(), y.dtype());
    Tensor entry = view::slice(cotangent, axis, {i, i + 1});
    copy_into(entry, Tensor::scalar(1, y.dtype()));
    const Gradients gradients = tape.backward(y, {.cotangent = cotangent});
    Tensor row = view::select(jacobian, -2, i);
    Dims order;
    for (int a = 0; a < scores.rank(); ++a)
      if (a != axis) order.push_back(a);
    order.push_back(axis);
    copy_into(row, view::permute(gradients.of(x), order));
  }
  return jacobian;
}

}  // namespace gradus
