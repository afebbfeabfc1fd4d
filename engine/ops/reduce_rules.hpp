#pragma once
// Attributes, shape rules and cases that the reductions share. For engine/ops only.

#include "engine/ops/define.hpp"
#include "engine/ops/layout.hpp"
#include "engine/ops/reduce.hpp"

namespace gradus::define {

struct ReduceAttributes {
  Dims axes;  // normalised and sorted; all of them when none was named
  bool keep;
};

inline ReduceAttributes normalised(const Tensor& x, const ReduceOptions& options, const char* where) {
  return {normalize_axes(options.axes, x.rank(), where), options.keep};
}

inline index_t reduced_count(const Shape& shape, const Dims& axes) {
  index_t count = 1;
  for (index_t axis : axes) count *= shape[static_cast<int>(axis)];
  return count;
}

// A reduced tensor with its axes put back as size 1, so that it broadcasts against the input.
inline Tensor with_axes(const Tensor& reduced, const Shape& shape, const ReduceAttributes& a) {
  return a.keep ? reduced : reshape(reduced, reduced_shape(shape, a.axes, true));
}

inline void declare_reduced(Run& r) {
  require_floating(r, 0);
  const auto& a = r.attr<ReduceAttributes>();
  r.declare(reduced_shape(r.in(0).shape(), a.axes, a.keep), r.in(0).dtype());
}

template <Tensor (*f)(const Tensor&, const ReduceOptions&)>
std::vector<OpCase> reduce_cases() {
  return {{"all", {normal_input({3, 4})}, [](Inputs x) { return f(x[0], {}); }},
          {"last axis", {normal_input({5, 67})}, [](Inputs x) { return f(x[0], {.axes = {-1}}); }},
          {"first axis", {normal_input({35, 6})}, [](Inputs x) { return f(x[0], {.axes = {0}}); }},
          {"middle, kept", {normal_input({2, 5, 3})}, [](Inputs x) { return f(x[0], {.axes = {1}, .keep = true}); }},
          {"two apart",
           {normal_input({2, 3, 4})},
           [](Inputs x) {
             return f(x[0], {.axes = {0, -1}});
           }},
          {"empty result", {normal_input({0, 4})}, [](Inputs x) { return f(x[0], {.axes = {1}}); }}};
}

}  // namespace gradus::define
