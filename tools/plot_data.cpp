#include "tools/plot_data.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>

#include "tools/distribution.hpp"

namespace gradus::tools::plot {
namespace {

constexpr double dot_size = 4, path_end_size = 9;

/// Mixes the bits of a number: a fixed choice without a pattern in it.
std::uint64_t mix(std::uint64_t z) noexcept {
  z += 0x9E3779B97F4A7C15U;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

bool shown(const Canvas& canvas, double x, double y) { return can_show(x, canvas.x.scale) && can_show(y, canvas.y.scale); }

/// Lines differ in marker even while colours do not repeat, for readers who see neither well.
Marker line_marker(int style) { return static_cast<Marker>((style + style / colours) % markers); }

void draw_points(SvgWriter& svg, const Series& series, const Canvas& canvas, int style, std::size_t total) {
  std::vector<Point> points;
  for (const std::size_t i : choose(series.x.size(), drawn_of(series.x.size(), total)))
    if (shown(canvas, series.x[i], series.y[i])) points.push_back(canvas.at(series.x[i], series.y[i]));
  const double size = (total > 1500 ? 0.8 : total < 200 ? 1.4 : 1.0) * dot_size + (marker(style) == Marker::circle ? 0 : 1.5);
  svg.marks(points, marker(style), size, colour(style), "", 0.65);
}

/// Stretches of a line between values that cannot be shown.
std::vector<std::vector<Point>> stretches(const Series& series, const Canvas& canvas) {
  std::vector<std::vector<Point>> result(1);
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (shown(canvas, series.x[i], series.y[i])) result.back().push_back(canvas.at(series.x[i], series.y[i]));
    else if (!result.back().empty()) result.emplace_back();
  }
  return result;
}

/// A long line looks the same when each column of pixels keeps only its first, lowest, highest and last point.
std::vector<Point> by_columns(const std::vector<Point>& points) {
  constexpr std::size_t short_enough = 2000;
  if (points.size() <= short_enough) return points;
  std::vector<Point> kept;
  for (std::size_t begin = 0; begin < points.size();) {
    std::size_t end = begin + 1;
    while (end < points.size() && std::floor(points[end].x) == std::floor(points[begin].x)) ++end;
    std::size_t low = begin, high = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (points[i].y < points[low].y) low = i;
      if (points[i].y > points[high].y) high = i;
    }
    std::array<std::size_t, 4> order = {begin, low, high, end - 1};
    std::sort(order.begin(), order.end());
    const auto distinct = std::unique(order.begin(), order.end());
    for (auto i = order.begin(); i != distinct; ++i) kept.push_back(points[*i]);
    begin = end;
  }
  return kept;
}

std::string line_style(const LineLook& look) {
  constexpr std::array<std::string_view, 4> dashes = {"7 4", "2 4", "10 3 2 3", "4 3"};
  const std::string dash = look.dashed ? fmt::format(R"( stroke-dasharray="{}")", dashes[static_cast<std::size_t>(look.style) % dashes.size()]) : "";
  return fmt::format(R"(stroke="{}" stroke-width="{}"{})", colour(look.style), look.broad ? 3.5 : 2, dash);
}

void draw_line_marks(SvgWriter& svg, const std::vector<Point>& points, const LineLook& look) {
  svg.marks(points, line_marker(look.style), look.broad ? 10.5 : 7, colour(look.style), "#fff");
}

void draw_line(SvgWriter& svg, const Series& series, const Canvas& canvas, const LineLook& look) {
  constexpr std::size_t all_marked = 30, marks_on_long_lines = 10;
  std::vector<Point> marked;
  for (const std::vector<Point>& points : stretches(series, canvas)) {
    svg.polyline(by_columns(points), line_style(look));
    const std::size_t every = points.size() <= all_marked ? 1 : points.size() / marks_on_long_lines;
    for (std::size_t i = every / 2; i < points.size(); i += every) marked.push_back(points[i]);
  }
  draw_line_marks(svg, marked, look);
}

void draw_path(SvgWriter& svg, const Series& series, const Canvas& canvas, int style) {
  for (const std::vector<Point>& points : stretches(series, canvas)) {
    if (points.empty()) continue;
    const std::vector<Point> line = by_columns(points);
    svg.polyline(line, R"(stroke="#fff" stroke-width="5" opacity="0.8")");
    svg.polyline(line, R"(stroke="#222" stroke-width="1.5")");
    constexpr std::size_t most_stations = 50;
    if (points.size() > 2 && points.size() <= most_stations) svg.marks({points.begin() + 1, points.end() - 1}, Marker::circle, 4, "#222");
    svg.marks({points.front()}, Marker::circle, path_end_size - 1, "#fff", "#222");
    svg.marks({points.back()}, marker(style), path_end_size + 1, colour(style), "#222");
  }
}

std::string level_style(std::size_t number) {
  constexpr std::array<std::string_view, 3> dashes = {"7 4", "2 3", "10 3 2 3"};
  return fmt::format(R"(stroke="#444" stroke-width="1.5" stroke-dasharray="{}" fill="none")", dashes[number % dashes.size()]);
}

void draw_box_at(SvgWriter& svg, const Box& box, const Canvas& canvas, double x, double width, int style) {
  std::vector<double> values;
  for (const double value : box.values)
    if (shown(canvas, 1, value)) values.push_back(value);
  if (values.empty()) return;
  const Distribution d = distribution_of(values);
  const auto y = [&](double value) { return canvas.at(1, value).y; };

  constexpr std::size_t most_dots = 200;
  std::vector<Point> dots;
  for (const std::size_t i : choose(values.size(), std::min(values.size(), most_dots))) {
    const double jitter = static_cast<double>(mix(i) >> 11U) * 0x1p-53 - 0.5;
    dots.push_back({x + jitter * width * 0.8, y(values[i])});
  }
  const double reach = 1.5 * (d.upper_quartile - d.lower_quartile);
  double low = d.lower_quartile, high = d.upper_quartile;
  for (const double value : values) {
    if (value >= d.lower_quartile - reach) low = std::min(low, value);
    if (value <= d.upper_quartile + reach) high = std::max(high, value);
  }
  const std::string stroke = R"(stroke="#222" stroke-width="1")";
  svg.line({x, y(high)}, {x, y(d.upper_quartile)}, stroke);
  svg.line({x, y(low)}, {x, y(d.lower_quartile)}, stroke);
  svg.rect({x - width / 2, y(d.upper_quartile)}, width, std::max(0.5, y(d.lower_quartile) - y(d.upper_quartile)),
           fmt::format(R"(fill="{}" fill-opacity="0.3" {})", colour(style), stroke));
  svg.marks(dots, marker(style), dot_size, colour(style), "", 0.75);
  svg.line({x - width / 2, y(d.median)}, {x + width / 2, y(d.median)}, R"(stroke="#222" stroke-width="2.5")");
}

void draw_boxes(SvgWriter& svg, const Panel& panel, const Canvas& canvas) {
  const std::vector<std::string> categories = categories_of(panel), groups = groups_of(panel);
  const auto index = [](const std::vector<std::string>& names, const std::string& name) { return std::find(names.begin(), names.end(), name) - names.begin(); };
  const double slot = canvas.width / static_cast<double>(categories.size()) / (static_cast<double>(groups.size()) + 0.4);
  for (const Box& box : panel.boxes) {
    const auto category = index(categories, box.category), group = index(groups, box.group);
    const double middle = canvas.at(static_cast<double>(category), panel.y.scale == Scale::log ? 1 : 0).x;
    const double x = middle + (static_cast<double>(group) - (static_cast<double>(groups.size()) - 1) / 2) * slot;
    draw_box_at(svg, box, canvas, x, std::min(0.75 * slot, 46.0), static_cast<int>(group));
  }
}

template <class Name>
std::vector<std::string> distinct(const Panel& panel, Name name) {
  std::vector<std::string> names;
  for (const Box& box : panel.boxes)
    if (std::find(names.begin(), names.end(), box.*name) == names.end()) names.push_back(box.*name);
  return names;
}

}  // namespace

std::vector<LineLook> looks_of(const Panel& panel) {
  constexpr std::size_t most_dashed = 60;  // dashes of a jagged line hide its course
  const auto is_line = [](const Series& series) { return series.kind == Series::Kind::line; };
  const bool several = std::count_if(panel.series.begin(), panel.series.end(), is_line) > 1;
  bool dashed = true, seen = false;
  for (const Series& series : panel.series) dashed = dashed && (!is_line(series) || series.x.size() <= most_dashed);
  std::vector<LineLook> looks;
  for (std::size_t i = 0; i < panel.series.size(); ++i) {
    const Series& series = panel.series[i];
    const bool line = is_line(series);
    looks.push_back({series.style >= 0 ? series.style : static_cast<int>(i), line && several && !seen, line && seen && dashed});
    seen = seen || line;
  }
  return looks;
}

std::size_t drawn_of(std::size_t count, std::size_t total) noexcept {
  constexpr std::size_t always = 20;  // a small cluster among huge ones stays visible
  if (total <= most_points_drawn) return count;
  const double share = static_cast<double>(count) * static_cast<double>(most_points_drawn) / static_cast<double>(total);
  return std::min(count, std::max(always, static_cast<std::size_t>(std::lround(share))));
}

std::vector<std::size_t> choose(std::size_t count, std::size_t keep) {
  std::vector<std::size_t> chosen(keep);
  if (keep == count) std::iota(chosen.begin(), chosen.end(), std::size_t{0});
  else
    for (std::size_t i = 0; i < keep; ++i) {
      const std::size_t begin = count / keep * i + count % keep * i / keep, end = count / keep * (i + 1) + count % keep * (i + 1) / keep;
      chosen[i] = begin + mix(i) % (end - begin);
    }
  return chosen;
}

std::vector<std::string> categories_of(const Panel& panel) { return distinct(panel, &Box::category); }
std::vector<std::string> groups_of(const Panel& panel) { return distinct(panel, &Box::group); }

void draw_data(SvgWriter& svg, const Panel& panel, const Canvas& canvas) {
  const std::vector<LineLook> looks = looks_of(panel);
  std::size_t total = 0;
  for (const Series& series : panel.series)
    if (series.kind == Series::Kind::points) total += series.x.size();
  const auto each = [&](Series::Kind kind, auto&& draw) {
    for (std::size_t i = 0; i < panel.series.size(); ++i)
      if (panel.series[i].kind == kind) draw(panel.series[i], looks[i]);
  };
  each(Series::Kind::points, [&](const Series& series, const LineLook& look) { draw_points(svg, series, canvas, look.style, total); });
  draw_boxes(svg, panel, canvas);
  for (std::size_t i = 0; i < panel.levels.size(); ++i) {
    const double value = panel.levels[i].value;
    if (!shown(canvas, 1, value)) continue;
    const double y = canvas.at(1, value).y;
    svg.line({0, y}, {canvas.width, y}, level_style(i));
  }
  each(Series::Kind::line, [&](const Series& series, const LineLook& look) { draw_line(svg, series, canvas, look); });
  each(Series::Kind::path, [&](const Series& series, const LineLook& look) { draw_path(svg, series, canvas, look.style); });
}

void draw_sample(SvgWriter& svg, Point middle, Series::Kind kind, const LineLook& look) {
  const int style = look.style;
  const Point left{middle.x - 11, middle.y}, right{middle.x + 11, middle.y};
  switch (kind) {
    case Series::Kind::points: svg.marks({middle}, marker(style), 8, colour(style)); break;
    case Series::Kind::line:
      svg.line(left, right, line_style(look));
      draw_line_marks(svg, {middle}, look);
      break;
    case Series::Kind::path:
      svg.line(left, right, R"(stroke="#222" stroke-width="1.5")");
      svg.marks({left}, Marker::circle, path_end_size - 2, "#fff", "#222");
      svg.marks({right}, marker(style), path_end_size, colour(style), "#222");
      break;
  }
}

void draw_level_sample(SvgWriter& svg, Point middle, std::size_t number) {
  svg.line({middle.x - 12, middle.y}, {middle.x + 12, middle.y}, level_style(number));
}

void draw_box_sample(SvgWriter& svg, Point middle, int style) {
  svg.rect({middle.x - 8, middle.y - 5}, 16, 10, fmt::format(R"(fill="{}" fill-opacity="0.3" stroke="#222")", colour(style)));
  svg.marks({middle}, marker(style), dot_size, colour(style));
}

}  // namespace gradus::tools::plot
