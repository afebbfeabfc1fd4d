#pragma once
// What is inside a panel's frame: series, levels and boxes.

#include <cstddef>
#include <string>
#include <vector>

#include "tools/plot.hpp"
#include "tools/svg.hpp"

namespace gradus::tools::plot {

/// The area of a panel that holds the data, in pixels.
struct Canvas {
  FittedAxis x, y;
  double width = 0, height = 0;

  /// Pixels from the upper left corner.
  [[nodiscard]] Point at(double x_value, double y_value) const noexcept { return {x.fraction(x_value) * width, (1 - y.fraction(y_value)) * height}; }
};

/// How a series looks. Curves that coincide must both stay visible, which is what a comparison is often about: the
/// first of several is broad, the others are narrow and, unless they have many points, dashed.
struct LineLook {
  int style = 0;
  bool broad = false, dashed = false;
};
[[nodiscard]] std::vector<LineLook> looks_of(const Panel& panel);

/// How many of a series' `count` points are drawn when all series of the panel have `total`.
[[nodiscard]] std::size_t drawn_of(std::size_t count, std::size_t total) noexcept;

/// `keep` of the indices 0..count-1, in order, one from each of `keep` equal parts; the same every time.
[[nodiscard]] std::vector<std::size_t> choose(std::size_t count, std::size_t keep);

/// Categories or groups of boxes in order of first appearance.
[[nodiscard]] std::vector<std::string> categories_of(const Panel& panel);
[[nodiscard]] std::vector<std::string> groups_of(const Panel& panel);

/// Draws everything of the panel with the canvas' corner at the origin.
void draw_data(SvgWriter& svg, const Panel& panel, const Canvas& canvas);

/// Draws how a kind of series looks, for a legend, 24 pixels wide around `middle`.
void draw_sample(SvgWriter& svg, Point middle, Series::Kind kind, const LineLook& look);
void draw_level_sample(SvgWriter& svg, Point middle, std::size_t number);
void draw_box_sample(SvgWriter& svg, Point middle, int style);

}  // namespace gradus::tools::plot
