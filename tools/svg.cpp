#include "tools/svg.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>

#include "tools/text.hpp"

namespace gradus::tools::plot {
namespace {

// The darkest contrasts first; black is left to outlines, paths and axes as long as possible.
constexpr std::array<std::string_view, colours> palette = {"#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#f0e442", "#000000"};

/// A coordinate to a tenth of a pixel, as short as it can be written.
std::string number(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

/// Corners of a closed shape of diameter 1 around the origin.
std::vector<Point> corners(Marker shape) {
  switch (shape) {
    case Marker::square: return {{-0.44, -0.44}, {0.44, -0.44}, {0.44, 0.44}, {-0.44, 0.44}};
    case Marker::triangle: return {{0, -0.58}, {0.54, 0.38}, {-0.54, 0.38}};
    case Marker::down_triangle: return {{0, 0.58}, {0.54, -0.38}, {-0.54, -0.38}};
    case Marker::diamond: return {{0, -0.62}, {0.5, 0}, {0, 0.62}, {-0.5, 0}};
    case Marker::plus:
      return {{-0.17, -0.55}, {0.17, -0.55}, {0.17, -0.17}, {0.55, -0.17}, {0.55, 0.17},   {0.17, 0.17},
              {0.17, 0.55},   {-0.17, 0.55}, {-0.17, 0.17}, {-0.55, 0.17}, {-0.55, -0.17}, {-0.17, -0.17}};
    case Marker::cross: {
      std::vector<Point> turned = corners(Marker::plus);
      for (Point& p : turned) p = {(p.x - p.y) * 0.7071, (p.x + p.y) * 0.7071};
      return turned;
    }
    case Marker::star: {
      std::vector<Point> points;
      for (int i = 0; i < 10; ++i) {
        const double radius = i % 2 ? 0.28 : 0.64, angle = 0.62831853 * i;
        points.push_back({radius * std::sin(angle), -radius * std::cos(angle)});
      }
      return points;
    }
    case Marker::circle: break;
  }
  return {};
}

}  // namespace

std::string_view colour(int series) noexcept { return palette[static_cast<std::size_t>(series % colours)]; }

Marker marker(int series) noexcept { return static_cast<Marker>(series / colours % markers); }

double text_width(std::string_view text, double size) noexcept {
  constexpr std::string_view narrow = "iIjl.,:;'|!()[]{}ft /\\-r\"", wide = "mMwW@%";
  double width = 0;
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t c = next_character(text);
    const int columns = display_width(before.substr(0, before.size() - text.size()));
    if (c < 0x80 && narrow.find(static_cast<char>(c)) != std::string_view::npos) width += 0.41;
    else if (c < 0x80 && wide.find(static_cast<char>(c)) != std::string_view::npos) width += 0.98;
    else if (c >= 'A' && c <= 'Z') width += 0.74;
    else if (c >= 0x2070 && c < 0x2080) width += 0.42;  // superscripts
    else width += columns == 2 ? 1.05 : 0.64 * columns;
  }
  return width * size;
}

std::string shorten(std::string_view text, double width, double size) {
  if (text_width(text, size) <= width) return std::string(text);
  std::string_view rest = text;
  std::size_t kept = 0;
  while (!rest.empty()) {
    next_character(rest);
    const std::size_t length = text.size() - rest.size();
    if (text_width(text.substr(0, length), size) + 0.98 * size > width) break;
    kept = length;
  }
  return std::string(text.substr(0, kept)) + "\u2026";
}

std::vector<std::string> wrap(std::string_view text, double width, double size) {
  std::vector<std::string> lines = {""};
  while (!text.empty()) {
    const std::size_t space = std::min(text.find(' '), text.size());
    const std::string word = shorten(text.substr(0, space), width, size);
    const std::string longer = lines.back().empty() ? word : lines.back() + " " + word;
    if (lines.back().empty() || text_width(longer, size) <= width) lines.back() = longer;
    else lines.push_back(word);
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return lines;
}

void SvgWriter::open(std::string_view tag, std::string_view attributes) {
  fmt::format_to(std::back_inserter(out_), "<{}{}{}>\n", tag, attributes.empty() ? "" : " ", attributes);
}

void SvgWriter::close(std::string_view tag) { fmt::format_to(std::back_inserter(out_), "</{}>\n", tag); }

void SvgWriter::rect(Point corner, double width, double height, std::string_view attributes) {
  fmt::format_to(std::back_inserter(out_), "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" {}/>\n", number(corner.x), number(corner.y), number(width),
                 number(height), attributes);
}

void SvgWriter::line(Point from, Point to, std::string_view attributes) {
  fmt::format_to(std::back_inserter(out_), "<path d=\"M{} {}L{} {}\" {}/>\n", number(from.x), number(from.y), number(to.x), number(to.y), attributes);
}

void SvgWriter::polyline(const std::vector<Point>& points, std::string_view attributes) {
  if (points.empty()) return;
  out_ += R"(<path d=")";
  char command = 'M';
  for (const Point& p : points) {
    fmt::format_to(std::back_inserter(out_), "{}{} {}", command, number(p.x), number(p.y));
    command = 'L';
  }
  fmt::format_to(std::back_inserter(out_), "\" fill=\"none\" stroke-linejoin=\"round\" {}/>\n", attributes);
}

void SvgWriter::marks(const std::vector<Point>& points, Marker shape, double size, std::string_view fill, std::string_view outline, double opacity) {
  if (points.empty()) return;
  std::string path;
  if (shape == Marker::circle && outline.empty()) {  // dots are strokes of no length with round ends: a third of the bytes
    for (const Point& p : points) fmt::format_to(std::back_inserter(path), "M{} {}h0", number(p.x), number(p.y));
    fmt::format_to(std::back_inserter(out_), "<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linecap=\"round\" opacity=\"{}\"/>\n", path,
                   fill, number(size), opacity);
    return;
  }
  const std::vector<Point> shape_corners = corners(shape);
  for (const Point& p : points) {
    if (shape == Marker::circle) {
      const std::string r = number(size / 2), d = number(size);
      fmt::format_to(std::back_inserter(path), "M{} {}a{} {} 0 1 0 {} 0a{} {} 0 1 0 -{} 0z", number(p.x - size / 2), number(p.y), r, r, d, r, r, d);
      continue;
    }
    char command = 'M';
    for (const Point& corner : shape_corners) {
      fmt::format_to(std::back_inserter(path), "{}{} {}", command, number(p.x + corner.x * size), number(p.y + corner.y * size));
      command = 'L';
    }
    path += 'z';
  }
  const std::string stroke = outline.empty() ? "" : fmt::format(R"( stroke="{}" stroke-width="1")", outline);
  fmt::format_to(std::back_inserter(out_), "<path d=\"{}\" fill=\"{}\"{} opacity=\"{}\"/>\n", path, fill, stroke, opacity);
}

void SvgWriter::text(Point at, std::string_view content, const Font& font, double degrees) {
  constexpr std::array<std::string_view, 3> anchors = {"start", "middle", "end"};
  const std::string turn = degrees != 0 ? fmt::format(" transform=\"rotate({} {} {})\"", number(degrees), number(at.x), number(at.y)) : "";
  fmt::format_to(std::back_inserter(out_), "<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{}\"{} fill=\"{}\"{}>{}</text>\n", number(at.x),
                 number(at.y), number(font.size), anchors[static_cast<std::size_t>(font.anchor)], font.bold ? R"( font-weight="bold")" : "", font.fill, turn,
                 escape_xml(content));
}

void SvgWriter::note(std::string_view tag, std::string_view content) {
  fmt::format_to(std::back_inserter(out_), "<{}>{}</{}>\n", tag, escape_xml(content), tag);
}

}  // namespace gradus::tools::plot
