// numpy-like printing.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/tensor/tensor.hpp"

namespace gradus {
namespace {

class Printer {
 public:
  Printer(const Tensor& tensor, const PrintOptions& options) : t_(tensor), options_(options), summarise_(tensor.numel() > options.threshold) {
    if (is_floating(t_.dtype())) choose_notation();
    visit(0, 0, [&](index_t at) { width_ = std::max(width_, element(at).size()); });
  }

  [[nodiscard]] std::string text() const {
    std::string out;
    write(0, 0, out);
    return out;
  }

 private:
  // Visits the elements that will be printed.
  template <class F>
  void visit(int axis, index_t at, const F& f) const {
    if (axis == t_.rank()) return f(at);
    for (index_t i = 0; i < t_.shape()[axis]; ++i) {
      if (skips(axis, i)) i = t_.shape()[axis] - options_.edge_items;
      visit(axis + 1, at + i * t_.strides()[axis], f);
    }
  }
  [[nodiscard]] bool skips(int axis, index_t i) const { return summarise_ && t_.shape()[axis] > 2 * options_.edge_items && i == options_.edge_items; }

  [[nodiscard]] double number(index_t at) const {
    return visit_dtype(t_.dtype(), [&](auto tag) { return static_cast<double>(t_.data<decltype(tag)>()[at]); });
  }

  // Exponents when the printed numbers span too many digits for a fixed point, as numpy does.
  void choose_notation() {
    double large = 0, small = 0;
    visit(0, 0, [&](index_t at) {
      const double v = std::fabs(number(at));
      if (!std::isfinite(v) || v == 0) return;
      large = std::max(large, v);
      small = small == 0 ? v : std::min(small, v);
    });
    exponent_ = large >= 1e8 || (small > 0 && (small < 1e-4 || large / small > 1e6));
  }

  [[nodiscard]] std::string element(index_t at) const {
    if (t_.dtype() == DType::boolean) return t_.data<bool>()[at] ? "true" : "false";
    if (t_.dtype() == DType::i64) return std::to_string(t_.data<std::int64_t>()[at]);
    char buffer[64];
    const double value = number(at);
    if (std::isnan(value)) return "nan";
    std::snprintf(buffer, sizeof buffer, exponent_ ? "%.*e" : "%.*f", options_.precision, value);
    return buffer;
  }

  void write(int axis, index_t at, std::string& out) const {
    if (axis == t_.rank()) {
      const std::string text = element(at);
      out.append(width_ - text.size(), ' ').append(text);
      return;
    }
    const bool innermost = axis + 1 == t_.rank();
    std::string separator(1, ',');
    if (innermost) separator += ' ';
    else separator.append(static_cast<std::size_t>(t_.rank() - 1 - axis), '\n').append(static_cast<std::size_t>(axis + 1), ' ');
    out += '[';
    for (index_t i = 0; i < t_.shape()[axis]; ++i) {
      if (i > 0) out += separator;
      if (skips(axis, i)) {
        out.append("...").append(separator);
        i = t_.shape()[axis] - options_.edge_items;
      }
      write(axis + 1, at + i * t_.strides()[axis], out);
    }
    out += ']';
  }

  const Tensor& t_;
  PrintOptions options_;
  bool summarise_;
  bool exponent_ = false;
  std::size_t width_ = 0;
};

}  // namespace

std::string to_string(const Tensor& tensor, const PrintOptions& options) {
  if (!tensor.defined()) return "undefined";
  return Printer(tensor, options).text();
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace gradus
