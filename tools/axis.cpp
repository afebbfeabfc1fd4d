#include "tools/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace gradus::tools::plot {
namespace {

std::string superscript(int number) {
  constexpr std::array<std::string_view, 10> digits = {"\u2070", "\u00B9", "\u00B2", "\u00B3", "\u2074", "\u2075", "\u2076", "\u2077", "\u2078", "\u2079"};
  std::string text;
  for (const char c : std::to_string(number)) text += c == '-' ? "\u207B" : digits[static_cast<std::size_t>(c - '0')];
  return text;
}

/// A minus sign proper, as wide as a plus.
std::string with_minus(const std::string& text) { return text.starts_with('-') ? "\u2212" + text.substr(1) : text; }

/// Of 1, 2 and 5 times a power of ten, the one nearest to `raw` by ratio.
double round_step(double raw) {
  const double power = std::pow(10, std::floor(std::log10(raw))), digits = raw / power;
  return power * (digits < 1.414 ? 1 : digits < 3.162 ? 2 : digits < 7.071 ? 5 : 10);
}

/// Numbers far from 1 are shown over a common power of a thousand.
int common_exponent(double low, double high) {
  const double largest = std::max(std::abs(low), std::abs(high));
  if (largest >= 1e-2 && largest < 1e5) return 0;
  return static_cast<int>(std::floor(std::log10(largest) / 3)) * 3;
}

std::string title_of(const Axis& axis, int exponent) {
  std::string title = axis.label;
  std::string bracket = exponent != 0 ? "\u00D710" + superscript(exponent) : "";
  if (!axis.unit.empty()) bracket += (bracket.empty() ? "" : " ") + axis.unit;
  if (!bracket.empty()) title += " (" + bracket + ")";
  return title;
}

void linear_ticks(const Axis& axis, FittedAxis& fitted, int wanted) {
  double step = round_step((fitted.high - fitted.low) / wanted);
  if (axis.integers) step = std::max(step, 1.0);
  const int exponent = common_exponent(fitted.low, fitted.high);
  const double unit = std::pow(10, exponent);
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step / unit) + 1e-9)), 0, 12);
  const double first = std::ceil(fitted.low / step - 1e-6);
  for (double i = first; i * step <= fitted.high + 1e-6 * step; i += 1) {
    const double value = i * step;
    fitted.ticks.push_back({value, with_minus(fmt::format("{:.{}f}", value / unit + 0.0, decimals))});
  }
  fitted.title = title_of(axis, exponent);
}

std::string log_text(double value, bool plain) {
  if (plain) return fmt::format("{:g}", value);
  const int exponent = static_cast<int>(std::floor(std::log10(value) + 1e-9));
  const double digit = value / std::pow(10, exponent);
  return (std::abs(digit - 1) < 1e-6 ? "10" : fmt::format("{:.0f}\u00B710", digit)) + superscript(exponent);
}

void log_ticks(const Axis& axis, FittedAxis& fitted, int wanted) {
  const double decades = std::log10(fitted.high) - std::log10(fitted.low);
  if (decades < 0.7) {  // too few round numbers of the log kind
    linear_ticks(axis, fitted, wanted);
    return;
  }
  constexpr double most_minor = 20;
  const bool plain = fitted.low > 0.9e-3 && fitted.high < 1.1e4;
  const int every = std::max(1, static_cast<int>(std::ceil(decades / wanted)));
  const int first = static_cast<int>(std::floor(std::log10(fitted.low))), last = static_cast<int>(std::ceil(std::log10(fitted.high)));
  for (int exponent = first; exponent <= last; ++exponent)
    for (int digit = 1; digit <= (decades < 4 ? 9 : 1); ++digit) {
      const double value = digit * std::pow(10, exponent);
      if (decades > most_minor && exponent % every != 0) continue;
      if (value < fitted.low * (1 - 1e-9) || value > fitted.high * (1 + 1e-9)) continue;
      const bool named = decades < 1.7 ? digit == 1 || digit == 2 || digit == 5 : digit == 1 && exponent % every == 0;
      fitted.ticks.push_back({value, named ? log_text(value, plain) : ""});
    }
  fitted.title = title_of(axis, 0);
}

FittedAxis with_ticks(const Axis& axis, double low, double high, int wanted) {
  FittedAxis fitted{axis.scale, low, high, {}, ""};
  if (axis.scale == Scale::log) log_ticks(axis, fitted, wanted);
  else linear_ticks(axis, fitted, wanted);
  return fitted;
}

}  // namespace

bool can_show(double value, Scale scale) noexcept {
  constexpr double largest = 1e250;
  return std::abs(value) <= largest && (scale == Scale::linear || value >= 1 / largest);
}

bool Extent::add(double value, Scale scale) noexcept {
  if (!can_show(value, scale)) return false;
  const bool first = empty();
  low = first ? value : std::min(low, value);
  high = first ? value : std::max(high, value);
  return true;
}

double FittedAxis::fraction(double value) const noexcept {
  // Not the logarithm of a ratio, which may overflow.
  if (scale == Scale::log) return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  return (value - low) / (high - low);
}

FittedAxis fit(const Axis& axis, Extent extent, int wanted) {
  constexpr double margin = 0.04;
  const bool log = axis.scale == Scale::log;
  if (extent.empty()) return with_ticks(axis, log ? 1 : 0, log ? 10 : 1, wanted);
  double low = extent.low, high = extent.high;
  if (log) {
    const double factor = std::max(std::exp(margin * (std::log(high) - std::log(low))), high <= 1.02 * low ? 1.1 : 1.0);
    return with_ticks(axis, low / factor, high * factor, wanted);
  }
  if (axis.includes_zero) {
    low = std::min(low, 0.0);
    high = std::max(high, 0.0);
  }
  const double size = std::max(std::abs(low), std::abs(high));
  double room = (high - low) * margin;
  if (high - low <= 1e-12 * size) room = size > 0 ? size / 10 : 0.5;  // one value
  if (axis.integers) room = std::max(room, 0.3);
  return with_ticks(axis, axis.includes_zero && low == 0 ? 0 : low - room, high + room, wanted);
}

FittedAxis widen(const Axis& axis, const FittedAxis& fitted, double factor, int wanted) {
  const double middle = (fitted.low + fitted.high) / 2, half = (fitted.high - fitted.low) / 2 * factor;
  return with_ticks(axis, middle - half, middle + half, wanted);
}

}  // namespace gradus::tools::plot
