#pragma once
// Maps of values as colours over a rectangle, with their colour bar.

#include "tools/plot_data.hpp"

namespace gradus::tools::plot {

/// The smallest and largest finite value; 0 and 1 when there is none.
[[nodiscard]] Extent range_of(const Heat& heat);
/// Width that the colour bar with its labels takes right of the panel.
[[nodiscard]] double bar_width(const Heat& heat);
void draw_heat(SvgWriter& svg, const Heat& heat, const Canvas& canvas);
/// The bar and its labels, with the panel's upper right corner at `corner`.
void draw_colour_bar(SvgWriter& svg, const Heat& heat, Point corner, double height);

}  // namespace gradus::tools::plot
