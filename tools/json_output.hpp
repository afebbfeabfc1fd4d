#pragma once
// JSON of results: the head that every command's has, and numbers that JSON cannot hold.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/tensor/tensor.hpp"

namespace gradus::tools {

using Json = nlohmann::ordered_json;

/// A result being assembled. Non-finite numbers become null, and "notes" says under the number's name what it was.
class JsonResult {
 public:
  /// Starts with version, isa and threads.
  JsonResult();
  /// Any value that is not a floating-point number.
  void set(const std::string& name, Json value) { object_[name] = std::move(value); }
  void number(const std::string& name, double value);
  void numbers(const std::string& name, const std::vector<double>& values);
  /// A floating matrix (N, D) as a list of rows, an i64 vector (N) as a list.
  void tensor(const std::string& name, const Tensor& values);
  /// null, with the reason among the notes.
  void absent(const std::string& name, const std::string& reason);
  /// The text, ending in a line feed.
  [[nodiscard]] std::string text() const;

 private:
  void note(const std::string& name, const std::string& text);
  [[nodiscard]] Json checked(const std::string& name, double value);

  Json object_, notes_;
};

/// A finite number, else null.
[[nodiscard]] Json number_or_null(double value);

}  // namespace gradus::tools
