#pragma once
// Runs the cases of ONNX' own backend test: a model, its inputs and the outputs it must give.

#include <filesystem>
#include <string>
#include <vector>

#include "tests/onnx/call.hpp"

namespace gradus::onnx {

/// The outputs of a model; throws Skip for what is not there.
[[nodiscard]] std::vector<Value> run_model(const Model& model, std::vector<Value> inputs);

/// Largest difference allowed: relative * |expected| + absolute.
struct Tolerance {
  double relative = 0, absolute = 0;
};

/// "" when the output is what is expected, else how it differs. A type whose arithmetic ours cannot follow is a Skip.
[[nodiscard]] std::string difference(const Value& got, const Value& want, const Tolerance& tolerance);

/// Runs all data sets of one case. Returns "" or what is wrong; throws Skip.
[[nodiscard]] std::string run_case(const std::filesystem::path& folder);

}  // namespace gradus::onnx
