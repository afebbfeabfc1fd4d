#pragma once
// The arrays of one reference file in one dtype, and comparisons with them. tests/reference/generate.py made the files.

#include "engine/ops/elementwise.hpp"
#include "optim/optimizer.hpp"
#include "tests/reference.hpp"

namespace gradus::testing {

class Arrays {
 public:
  Arrays(const std::string& file, DType dtype) : arrays_(reference(file)), dtype_(dtype) {}
  [[nodiscard]] bool present() const { return !arrays_.empty(); }
  [[nodiscard]] DType dtype() const { return dtype_; }

  /// An array in this dtype; integers stay integers.
  [[nodiscard]] Tensor operator[](const std::string& name) const {
    const Tensor& stored = arrays_.at(name);
    return is_floating(stored.dtype()) ? cast(stored, dtype_) : stored;
  }
  [[nodiscard]] double number(const std::string& name) const { return arrays_.at(name).item(); }

  /// max |got - array| is at most 1e-10 (f32: 1e-5) of max(max |array|, 1).
  void check(const std::string& name, const Tensor& got) const {
    const double found = deviation(got, arrays_.at(name));
    INFO(name << " in " << name_of(dtype_) << " deviates by " << found);
    CHECK(found <= (dtype_ == DType::f64 ? 1e-10 : 1e-5));
  }

 private:
  std::map<std::string, Tensor> arrays_;
  DType dtype_;
};

/// The loss before each of `steps` updates of the parameters.
template <class Loss>
Tensor loss_curve(ParameterSet& parameters, Optimizer& optimizer, int steps, Loss&& loss) {
  std::vector<double> curve;
  for (int i = 0; i < steps; ++i) {
    Tape tape;
    const WatchedParameters watched = tape.watch(parameters);
    const Tensor value = loss(watched);
    curve.push_back(value.item());
    optimizer.step(parameters, watched, tape.backward(value));
  }
  return Tensor::from(curve, {steps});
}

}  // namespace gradus::testing
