#include "tools/json_output.hpp"

#include <cmath>

#include "engine/core/parallel.hpp"
#include "engine/kernels/kernels.hpp"
#include "engine/tensor/view.hpp"
#include "tools/version.hpp"

namespace gradus::tools {

Json number_or_null(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

JsonResult::JsonResult() : object_(Json::object()), notes_(Json::object()) {
  object_["version"] = version();
  object_["isa"] = kernels::name_of(kernels::active_isa());
  object_["threads"] = thread_count();
}

void JsonResult::note(const std::string& name, const std::string& text) { notes_[name] = text; }

Json JsonResult::checked(const std::string& name, double value) {
  if (std::isnan(value)) note(name, "null stands for not a number");
  else if (std::isinf(value)) note(name, value > 0 ? "null stands for infinity" : "null stands for minus infinity");
  return number_or_null(value);
}

void JsonResult::number(const std::string& name, double value) { object_[name] = checked(name, value); }

void JsonResult::numbers(const std::string& name, const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(checked(name, value));
  object_[name] = std::move(list);
}

void JsonResult::tensor(const std::string& name, const Tensor& values) {
  if (values.dtype() == DType::i64) {
    object_[name] = values.to_vector<std::int64_t>();
    return;
  }
  visit_floating(values.dtype(), "json", [&](auto tag) {
    const auto flat = values.to_vector<decltype(tag)>();
    const auto columns = static_cast<std::size_t>(values.size(1));
    Json rows = Json::array();
    for (std::size_t at = 0; at < flat.size(); at += columns) {
      Json row = Json::array();
      for (std::size_t c = 0; c < columns; ++c) row.push_back(checked(name, static_cast<double>(flat[at + c])));
      rows.push_back(std::move(row));
    }
    object_[name] = std::move(rows);
  });
}

void JsonResult::absent(const std::string& name, const std::string& reason) {
  object_[name] = nullptr;
  note(name, reason);
}

// One line a name: short enough to look at, and long arrays do not fill the screen with one number a line.
std::string JsonResult::text() const {
  Json whole = object_;
  if (!notes_.empty()) whole["notes"] = notes_;
  std::string text = "{";
  for (const auto& [name, value] : whole.items())
    text += (text.size() == 1 ? "\n " : ",\n ") + Json(name).dump() + ": " + value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text + "\n}\n";
}

}  // namespace gradus::tools
