#pragma once
// Pictures that are legible alone: panels of points, lines, paths and distributions, as one SVG file.

#include <string>
#include <vector>

#include "tools/axis.hpp"

namespace gradus::tools::plot {

/// One set of points, drawn as dots, as a line, or as the path that something takes (hollow where it starts, filled where it
/// ends). Values that an axis cannot show (NaN, infinite, not positive on a log scale) are left out, and the caption says so.
struct Series {
  enum class Kind { points, line, path };
  std::string name;  ///< in the legend; empty: not listed
  Kind kind = Kind::points;
  std::vector<double> x, y;
  int style = -1;  ///< number of the colour and marker; -1: its place among the panel's series
};

/// Values to be shown as a box with its single values, at a category of the x axis, in the colour of a group.
struct Box {
  std::string category;
  std::string group;  ///< in the legend; empty when there is one group only
  std::vector<double> values;
};

/// A dashed line across the panel, for a value to compare with.
struct Level {
  std::string name;
  double value = 0;
};

/// Values of a grid as colours over a rectangle of the axes, with a colour bar. Row 0 lies at y_low.
struct Heat {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;  ///< row by row
  double x_low = 0, x_high = 1, y_low = 0, y_high = 1;
  std::string label;  ///< at the colour bar
};

struct Panel {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
  std::vector<Box> boxes;  ///< when there are any, x has their categories
  std::vector<Level> levels;
  std::vector<Heat> heats;           ///< under everything else; one at most
  bool equal_units = false;          ///< a unit is as long on x as on y
  std::string note;                  ///< under the panel
  double width = 400, height = 300;  ///< of the area that holds the data
};

struct Figure {
  std::string title;
  std::string command;  ///< that made it; kept in the file's metadata
  std::vector<Panel> panels;
  int columns = 3;  ///< panels side by side
};

/// Above this many points, a fixed choice of them is drawn, and the caption says how many.
inline constexpr std::size_t most_points_drawn = 5000;

/// The SVG file. The same figure gives the same bytes. ValueError when a series has x and y of different lengths.
[[nodiscard]] std::string to_svg(const Figure& figure);

}  // namespace gradus::tools::plot
