#pragma once
// The pieces SVG pictures are made of: colours, marker shapes, text of known width, and a writer of elements.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradus::tools::plot {

/// Colour of the i-th series as "#rrggbb": Okabe and Ito's palette, which colour-blind people can tell apart, over and over.
[[nodiscard]] std::string_view colour(int series) noexcept;
inline constexpr int colours = 8;

enum class Marker { circle, square, triangle, diamond, plus, cross, down_triangle, star };
inline constexpr int markers = 8;
/// The marker of the i-th series: a new shape whenever the colours begin again.
[[nodiscard]] Marker marker(int series) noexcept;

/// How text is set.
enum class Anchor { start, middle, end };
struct Font {
  double size = 12;
  Anchor anchor = Anchor::start;
  bool bold = false;
  std::string_view fill = "#222";
};

/// An upper bound on the width of text in pixels, in the fonts that pictures ask for.
[[nodiscard]] double text_width(std::string_view text, double size) noexcept;
/// Breaks text at spaces into lines no wider than `width`; words that are longer are cut. At least one line.
[[nodiscard]] std::vector<std::string> wrap(std::string_view text, double width, double size);
/// Text cut to `width`, ending in an ellipsis when something was dropped.
[[nodiscard]] std::string shorten(std::string_view text, double width, double size);

struct Point {
  double x, y;
};

/// Writes elements one after the other. Coordinates are pixels, y downwards, rounded to a tenth.
class SvgWriter {
 public:
  void open(std::string_view tag, std::string_view attributes = "");
  void close(std::string_view tag);
  void rect(Point corner, double width, double height, std::string_view attributes);
  void line(Point from, Point to, std::string_view attributes);
  void polyline(const std::vector<Point>& points, std::string_view attributes);
  /// All markers of one series as one path; `size` is their diameter. Filled shapes are outlined in `outline` unless it is empty.
  void marks(const std::vector<Point>& points, Marker shape, double size, std::string_view fill, std::string_view outline = "", double opacity = 1);
  void text(Point at, std::string_view content, const Font& font, double degrees = 0);
  /// An element that holds only text: title, desc, metadata.
  void note(std::string_view tag, std::string_view content);
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

}  // namespace gradus::tools::plot
