#include <algorithm>

#include "engine/ops/layout.hpp"
#include "tests/onnx/operators.hpp"

namespace gradus::onnx {
namespace {

/// Runs f and expects our law of it: a negative number in an index tensor is an error.
template <class F>
Outputs indexed(const Tensor& index, F&& f) {
  const auto values = index.to_vector<index_t>();
  const bool negative = std::any_of(values.begin(), values.end(), [](index_t i) { return i < 0; });
  try {
    const Tensor result = f();
    if (negative) throw Malformed("a negative index was taken");
    return {result};
  } catch (const IndexError&) {
    if (!negative) throw;
    skip_law("a negative number in an index tensor is an error");
  }
}

Outputs gather_slices(Call& c) {
  const Tensor &x = c.in(0), &index = c.in(1);
  const int axis = normalize_axis(c.integer("axis", 0), x.rank(), "Gather");
  Shape shape;
  for (int i = 0; i < axis; ++i) shape.push_back(x.shape()[i]);
  for (const index_t size : index.shape()) shape.push_back(size);
  for (int i = axis + 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return indexed(index, [&] { return reshape(index_select(x, axis, reshape(index, {-1})), shape); });
}

Outputs gather_elements(Call& c) {
  return indexed(c.in(1), [&] { return gather(c.in(0), c.integer("axis", 0), c.in(1)); });
}

/// Ours adds; overwriting is adding to zeros and choosing where something was added.
Outputs scatter_elements(Call& c) {
  const Tensor &x = c.in(0), &index = c.in(1), &source = c.in(2);
  const index_t axis = c.integer("axis", 0);
  const std::string reduction = c.text("reduction", "none");
  if (reduction == "add") return indexed(index, [&] { return scatter_add(x, axis, index, source); });
  if (reduction != "none") skip_attribute(cat("ScatterElements.reduction ", reduction));
  return indexed(index, [&] {
    const Tensor zeros = Tensor::zeros(x.shape(), x.dtype()), hits = scatter_add(zeros, axis, index, Tensor::ones(source.shape(), x.dtype()));
    return where(greater(hits, 0.0), scatter_add(zeros, axis, index, source), x);
  });
}

/// Indices may come as floats; `values` are what stands off and on.
Outputs one_hot_values(Call& c) {
  const Tensor index = cast(c.in(0), DType::i64), &values = c.in(2);
  const auto classes = static_cast<index_t>(c.item(1));
  const int rank = index.rank() + 1, axis = normalize_axis(c.integer("axis", -1), rank, "OneHot");
  Dims order;  // the new axis is the last and goes to its place
  for (int i = 0; i < rank; ++i) order.push_back(i < axis ? i : i == axis ? rank - 1 : i - 1);
  return indexed(index, [&] {
    const Tensor on = equal_to(one_hot(index, classes), 1.0);
    return permute(where(on, select(values, 0, 1), select(values, 0, 0)), order);
  });
}

Outputs compress(Call& c) {
  const Tensor x = c.has("axis") ? c.in(0) : reshape(c.in(0), {-1});
  const auto chosen = c.in(1).to_vector<bool>();
  std::vector<index_t> kept;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i]) kept.push_back(static_cast<index_t>(i));
  return {index_select(x, c.integer("axis", 0), Tensor::from(kept, {static_cast<index_t>(kept.size())}))};
}

constexpr Entry entries[] = {
    {"Gather", gather_slices},     {"GatherElements", gather_elements},
    {"Scatter", scatter_elements}, {"ScatterElements", scatter_elements},
    {"OneHot", one_hot_values},    {"Compress", compress},
};

}  // namespace

std::span<const Entry> indexing_operators() { return entries; }

}  // namespace gradus::onnx
