#include "tools/plot_heat.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace gradus::tools::plot {
namespace {

constexpr double bar = 12, label_gap = 5, text_size = 11;

// Cividis: even in lightness, the same to those who do not tell red from green. Values that are not finite are white.
std::string colour_at(double share) {
  constexpr std::array<std::array<int, 3>, 9> stops{
      {{0, 34, 78}, {26, 56, 111}, {67, 78, 108}, {98, 100, 110}, {125, 124, 120}, {154, 149, 118}, {187, 175, 107}, {221, 204, 87}, {254, 232, 56}}};
  if (!std::isfinite(share)) return "#ffffff";
  const double at = std::clamp(share, 0.0, 1.0) * (stops.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(at), stops.size() - 2);
  std::array<int, 3> rgb{};
  for (std::size_t c = 0; c < 3; ++c)
    rgb[c] = static_cast<int>(std::lround(stops[low][c] + (at - static_cast<double>(low)) * (stops[low + 1][c] - stops[low][c])));
  return fmt::format("#{:02x}{:02x}{:02x}", rgb[0], rgb[1], rgb[2]);
}

double share_of(const Extent& range, double value) { return range.high > range.low ? (value - range.low) / (range.high - range.low) : 0.5; }

FittedAxis labels_of(const Heat& heat) { return fit({.label = heat.label}, range_of(heat), 4); }

}  // namespace

Extent range_of(const Heat& heat) {
  Extent range;
  for (const double value : heat.values) range.add(value, Scale::linear);
  if (range.empty()) range = {0, 1};
  return range;
}

double bar_width(const Heat& heat) {
  double widest = 0;
  for (const Tick& tick : labels_of(heat).ticks) widest = std::max(widest, text_width(tick.text, text_size));
  return 2 * label_gap + bar + label_gap + widest + (heat.label.empty() ? 0 : 1.5 * text_size);
}

void draw_heat(SvgWriter& svg, const Heat& heat, const Canvas& canvas) {
  const Extent range = range_of(heat);
  const double dx = (heat.x_high - heat.x_low) / static_cast<double>(heat.columns), dy = (heat.y_high - heat.y_low) / static_cast<double>(heat.rows);
  for (std::size_t r = 0; r < heat.rows; ++r)
    for (std::size_t c = 0; c < heat.columns; ++c) {
      const Point low = canvas.at(heat.x_low + dx * static_cast<double>(c), heat.y_low + dy * static_cast<double>(r));
      const Point high = canvas.at(heat.x_low + dx * static_cast<double>(c + 1), heat.y_low + dy * static_cast<double>(r + 1));
      // A little wider than the cell, or seams show between the cells.
      svg.rect({low.x, high.y}, high.x - low.x + 0.3, low.y - high.y + 0.3,
               fmt::format(R"(fill="{}")", colour_at(share_of(range, heat.values[r * heat.columns + c]))));
    }
}

void draw_colour_bar(SvgWriter& svg, const Heat& heat, Point corner, double height) {
  constexpr int steps = 32;
  const Extent range = range_of(heat);
  const double left = corner.x + 2 * label_gap, step = height / steps;
  for (int i = 0; i < steps; ++i)
    svg.rect({left, corner.y + height - step * (i + 1)}, bar, step + 0.3, fmt::format(R"(fill="{}")", colour_at((i + 0.5) / steps)));
  double widest = 0;
  const FittedAxis labels = labels_of(heat);
  for (const Tick& tick : labels.ticks) {
    const double share = range.high > range.low ? share_of(range, tick.value) : -1;  // one value has no scale
    if (share < -1e-9 || share > 1 + 1e-9) continue;
    svg.text({left + bar + label_gap, corner.y + (1 - share) * height + text_size * 0.36}, tick.text, {text_size});
    widest = std::max(widest, text_width(tick.text, text_size));
  }
  if (!labels.title.empty()) svg.text({left + bar + 2 * label_gap + widest + text_size, corner.y + height / 2}, labels.title, {text_size, Anchor::middle}, -90);
}

}  // namespace gradus::tools::plot
