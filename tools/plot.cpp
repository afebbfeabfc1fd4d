#include "tools/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "engine/core/error.hpp"
#include "tools/plot_data.hpp"
#include "tools/plot_heat.hpp"
#include "tools/svg.hpp"

namespace gradus::tools::plot {
namespace {

constexpr double label_size = 12, small_size = 11, title_size = 13, figure_title_size = 17;
constexpr double tick_length = 5, gap = 8, line_height = 1.35;
constexpr std::size_t most_legend_rows = 5;

struct LegendEntry {
  std::string name;
  std::function<void(SvgWriter&, Point)> sample;
  double x = 0;
  std::size_t row = 0;
};

/// A panel with all its sizes known. Margins lie around the data area.
struct Layout {
  const Panel* panel = nullptr;
  Canvas canvas;
  std::vector<std::string> title, notes;
  std::vector<LegendEntry> legend;
  bool turned_labels = false;
  double left = 0, right = 0, top = 0, bottom = 0;
  double labels_height = 0;
};

std::string with_commas(std::size_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<std::size_t>(at), 1, ',');
  return text;
}

/// Ranges of the data, and how many values cannot be shown.
std::size_t measure(const Panel& panel, Extent& x, Extent& y) {
  std::size_t left_out = 0;
  for (const Series& series : panel.series) {
    if (series.x.size() != series.y.size()) throw ValueError("plot", cat("series '", series.name, "' has ", series.x.size(), " x and ", series.y.size(), " y"));
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      Extent try_x = x, try_y = y;
      if (try_x.add(series.x[i], panel.x.scale) && try_y.add(series.y[i], panel.y.scale)) {
        x = try_x;
        y = try_y;
      } else {
        ++left_out;
      }
    }
  }
  for (const Heat& heat : panel.heats) {
    if (heat.values.size() != heat.rows * heat.columns || panel.heats.size() > 1)
      throw ValueError("plot", cat("a map of ", heat.rows, " x ", heat.columns, " has ", heat.values.size(), " values, one of ", panel.heats.size()),
                       "give one a cell, and one map a panel");
    for (const double value : {heat.x_low, heat.x_high}) x.add(value, panel.x.scale);
    for (const double value : {heat.y_low, heat.y_high}) y.add(value, panel.y.scale);
  }
  for (const Box& box : panel.boxes)
    for (const double value : box.values) left_out += !y.add(value, panel.y.scale);
  for (const Level& level : panel.levels) left_out += !y.add(level.value, panel.y.scale);
  return left_out;
}

double widest_label(const FittedAxis& axis) {
  double width = 0;
  for (const Tick& tick : axis.ticks) width = std::max(width, text_width(tick.text, small_size));
  return width;
}

/// An x axis whose labels do not touch.
FittedAxis fit_x(const Axis& axis, const Extent& extent, double width, const std::function<FittedAxis(int)>& fitting) {
  FittedAxis fitted;
  for (int wanted = std::max(2, static_cast<int>(width / 60)); wanted >= 2; --wanted) {
    fitted = fitting(wanted);
    const double needed = (widest_label(fitted) + 12) * static_cast<double>(fitted.ticks.size());
    if (needed <= width || axis.scale == Scale::log || extent.empty()) break;
  }
  return fitted;
}

FittedAxis category_axis(const Panel& panel) {
  const std::vector<std::string> names = categories_of(panel);
  FittedAxis axis{Scale::linear, -0.5, static_cast<double>(names.size()) - 0.5, {}, panel.x.label};
  for (std::size_t i = 0; i < names.size(); ++i) axis.ticks.push_back({static_cast<double>(i), shorten(names[i], 210, small_size)});
  return axis;
}

void fit_axes(Layout& layout, const Extent& x, const Extent& y) {
  const Panel& panel = *layout.panel;
  Canvas& canvas = layout.canvas;
  canvas.width = panel.width;
  canvas.height = panel.height;
  const int wanted_y = std::max(2, static_cast<int>(panel.height / 50));
  canvas.y = fit(panel.y, y, wanted_y);
  if (!panel.boxes.empty()) {
    canvas.x = category_axis(panel);
    layout.turned_labels = (widest_label(canvas.x) + gap) * static_cast<double>(canvas.x.ticks.size()) > panel.width;
    return;
  }
  canvas.x = fit_x(panel.x, x, panel.width, [&](int wanted) { return fit(panel.x, x, wanted); });
  if (!panel.equal_units || panel.x.scale == Scale::log || panel.y.scale == Scale::log) return;
  const double ratio = (canvas.x.high - canvas.x.low) / panel.width / ((canvas.y.high - canvas.y.low) / panel.height);
  if (ratio > 1) canvas.y = widen(panel.y, canvas.y, ratio, wanted_y);
  else canvas.x = fit_x(panel.x, x, panel.width, [&, before = canvas.x](int wanted) { return widen(panel.x, before, 1 / ratio, wanted); });
}

std::vector<LegendEntry> legend_of(const Panel& panel) {
  std::vector<LegendEntry> legend;
  const std::vector<LineLook> looks = looks_of(panel);
  auto look = looks.begin();
  for (const Series& series : panel.series) {
    const auto sample = [kind = series.kind, shown_as = *look++](SvgWriter& svg, Point at) { draw_sample(svg, at, kind, shown_as); };
    if (!series.name.empty()) legend.push_back({series.name, sample});
  }
  int style = 0;
  for (const std::string& group : groups_of(panel)) {
    const auto sample = [style](SvgWriter& svg, Point at) { draw_box_sample(svg, at, style); };
    if (!group.empty()) legend.push_back({group, sample});
    ++style;
  }
  for (std::size_t i = 0; i < panel.levels.size(); ++i) {
    if (panel.levels[i].name.empty()) continue;
    legend.push_back({panel.levels[i].name, [i](SvgWriter& svg, Point at) { draw_level_sample(svg, at, i); }});
  }
  return legend;
}

/// Puts the entries in rows and columns no wider than `width` together; returns how many had to be dropped.
std::size_t arrange(std::vector<LegendEntry>& legend, double width) {
  constexpr double sample_width = 30, between = 16;
  double widest = 0, sum = 0;
  for (LegendEntry& entry : legend) {
    entry.name = shorten(entry.name, width - sample_width, label_size);
    const double needed = sample_width + text_width(entry.name, label_size) + between;
    entry.x = sum;  // right when one row is enough
    sum += needed;
    widest = std::max(widest, needed);
  }
  if (sum - between <= width) return 0;
  const auto columns = static_cast<std::size_t>(std::max(1.0, (width + between) / widest));
  const std::size_t kept = std::min(legend.size(), columns * most_legend_rows), dropped = legend.size() - kept;
  legend.resize(kept);
  for (std::size_t i = 0; i < kept; ++i) {
    legend[i].x = static_cast<double>(i % columns) * widest;
    legend[i].row = i / columns;
  }
  return dropped;
}

std::vector<std::string> notes_of(const Panel& panel, std::size_t left_out, std::size_t dropped) {
  std::vector<std::string> notes;
  if (!panel.note.empty()) notes.push_back(panel.note);
  std::size_t total = 0, drawn = 0;
  for (const Series& series : panel.series)
    if (series.kind == Series::Kind::points) total += series.x.size();
  for (const Series& series : panel.series)
    if (series.kind == Series::Kind::points) drawn += drawn_of(series.x.size(), total);
  if (drawn < total) notes.push_back(fmt::format("{} of {} points are drawn.", with_commas(drawn), with_commas(total)));
  if (left_out > 0) notes.push_back(fmt::format("{} left out: not finite, or not positive on a log axis.", with_commas(left_out)));
  if (dropped > 0) notes.push_back(fmt::format("{} more series are not listed.", dropped));
  const bool paths = std::any_of(panel.series.begin(), panel.series.end(), [](const Series& series) { return series.kind == Series::Kind::path; });
  if (paths) notes.emplace_back("Paths begin at the hollow mark and end at the filled one.");
  if (!panel.boxes.empty()) notes.emplace_back("Boxes: median and quartiles; whiskers: values within 1.5 box heights; dots: single values.");
  return notes;
}

Layout prepare(const Panel& panel) {
  Layout layout;
  layout.panel = &panel;
  Extent x, y;
  const std::size_t left_out = measure(panel, x, y);
  fit_axes(layout, x, y);
  layout.title = wrap(panel.title, panel.width, title_size);
  layout.legend = legend_of(panel);
  const std::size_t dropped = arrange(layout.legend, panel.width);
  for (const std::string& note : notes_of(panel, left_out, dropped))
    for (std::string& line : wrap(note, panel.width, small_size)) layout.notes.push_back(std::move(line));

  const Canvas& canvas = layout.canvas;
  layout.left = widest_label(canvas.y) + tick_length + 2 * gap + (canvas.y.title.empty() ? 0 : label_size * line_height);
  layout.right = 2 * gap + (canvas.x.ticks.empty() ? 0 : text_width(canvas.x.ticks.back().text, small_size) / 2);
  for (const Heat& heat : panel.heats) layout.right += bar_width(heat);
  layout.top = panel.title.empty() ? gap : gap + static_cast<double>(layout.title.size()) * title_size * line_height;
  layout.labels_height = tick_length + (layout.turned_labels ? 0.5 * widest_label(canvas.x) + small_size : small_size * line_height);
  const double rows = layout.legend.empty() ? 0 : static_cast<double>(layout.legend.back().row + 1);
  layout.bottom = layout.labels_height + (canvas.x.title.empty() ? 0 : label_size * line_height) + (rows > 0 ? gap : 0) + rows * label_size * 1.5 +
                  (layout.notes.empty() ? 0 : gap) + static_cast<double>(layout.notes.size()) * small_size * line_height + gap;
  if (layout.turned_labels && !canvas.x.ticks.empty()) layout.left = std::max(layout.left, 0.87 * text_width(canvas.x.ticks[0].text, small_size));
  return layout;
}

void draw_axes(SvgWriter& svg, const Layout& layout) {
  const Canvas& canvas = layout.canvas;
  const bool categories = !layout.panel->boxes.empty();
  const std::string grid = R"(stroke="#e4e4e4" stroke-width="1")", dark = R"(stroke="#444" stroke-width="1")";
  for (const Tick& tick : canvas.y.ticks) {
    const double y = (1 - canvas.y.fraction(tick.value)) * canvas.height;
    if (!tick.text.empty()) svg.line({0, y}, {canvas.width, y}, grid);
    svg.line({tick.text.empty() ? -tick_length / 2 : -tick_length, y}, {0, y}, dark);
    svg.text({-tick_length - 3, y + small_size * 0.36}, tick.text, {small_size, Anchor::end});
  }
  for (const Tick& tick : canvas.x.ticks) {
    const double x = canvas.x.fraction(tick.value) * canvas.width;
    if (!tick.text.empty() && !categories) svg.line({x, 0}, {x, canvas.height}, grid);
    svg.line({x, canvas.height}, {x, canvas.height + (tick.text.empty() ? tick_length / 2 : tick_length)}, dark);
    if (layout.turned_labels) svg.text({x + 3, canvas.height + tick_length + small_size * 0.9}, tick.text, {small_size, Anchor::end}, -30);
    else svg.text({x, canvas.height + tick_length + small_size}, tick.text, {small_size, Anchor::middle});
  }
  svg.polyline({{0, 0}, {0, canvas.height}, {canvas.width, canvas.height}}, dark);
}

void draw_titles(SvgWriter& svg, const Layout& layout) {
  const Canvas& canvas = layout.canvas;
  double y = -gap - static_cast<double>(layout.title.size() - 1) * title_size * line_height;
  for (const std::string& line : layout.title) {
    if (!line.empty()) svg.text({canvas.width / 2, y}, line, {title_size, Anchor::middle, true});
    y += title_size * line_height;
  }
  if (!canvas.y.title.empty()) {
    const double x = -tick_length - gap - widest_label(canvas.y) - 4;
    svg.text({x, canvas.height / 2}, shorten(canvas.y.title, canvas.height * 1.05, label_size), {label_size, Anchor::middle}, -90);
  }
}

/// X title, legend and notes, below the labels.
void draw_foot(SvgWriter& svg, const Layout& layout) {
  const Canvas& canvas = layout.canvas;
  double y = canvas.height + layout.labels_height;
  if (!canvas.x.title.empty()) {
    y += label_size * line_height;
    svg.text({canvas.width / 2, y - 2}, shorten(canvas.x.title, canvas.width, label_size), {label_size, Anchor::middle});
  }
  if (!layout.legend.empty()) {
    y += gap;
    for (const LegendEntry& entry : layout.legend) {
      const double middle = y + (static_cast<double>(entry.row) + 0.5) * label_size * 1.5;
      entry.sample(svg, {entry.x + 12, middle});
      svg.text({entry.x + 30, middle + label_size * 0.36}, entry.name, {label_size});
    }
    y += static_cast<double>(layout.legend.back().row + 1) * label_size * 1.5;
  }
  if (!layout.notes.empty()) y += gap;
  for (const std::string& line : layout.notes) {
    y += small_size * line_height;
    svg.text({0, y - 3}, line, {small_size, Anchor::start, false, "#555"});
  }
}

void draw_panel(SvgWriter& svg, const Layout& layout, Point corner) {
  svg.open("g", fmt::format("transform=\"translate({:.1f} {:.1f})\"", corner.x, corner.y));
  for (const Heat& heat : layout.panel->heats) {
    draw_heat(svg, heat, layout.canvas);
    draw_colour_bar(svg, heat, {layout.canvas.width, 0}, layout.canvas.height);
  }
  draw_axes(svg, layout);
  draw_data(svg, *layout.panel, layout.canvas);
  draw_titles(svg, layout);
  draw_foot(svg, layout);
  svg.close("g");
}

/// Margins shared by the panels of a row or a column, so that their data areas line up.
struct Track {
  double before = 0, inside = 0, after = 0;
  void hold(double b, double i, double a) {
    before = std::max(before, b);
    inside = std::max(inside, i);
    after = std::max(after, a);
  }
  [[nodiscard]] double size() const { return before + inside + after; }
};

double total(const std::vector<Track>& tracks) {
  double sum = 0;
  for (const Track& track : tracks) sum += track.size();
  return sum;
}

}  // namespace

std::string to_svg(const Figure& figure) {
  std::vector<Layout> layouts;
  for (const Panel& panel : figure.panels) layouts.push_back(prepare(panel));
  const std::size_t columns = std::clamp<std::size_t>(layouts.size(), 1, static_cast<std::size_t>(std::max(1, figure.columns)));
  std::vector<Track> column(columns), row((layouts.size() + columns - 1) / columns);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const Layout& l = layouts[i];
    column[i % columns].hold(l.left, l.canvas.width, l.right);
    row[i / columns].hold(l.top, l.canvas.height, l.bottom);
  }
  const double width = std::max(total(column), 200.0) + 2 * gap;
  const std::vector<std::string> title = wrap(figure.title, width - 4 * gap, figure_title_size);
  const double head = figure.title.empty() ? gap : gap + static_cast<double>(title.size()) * figure_title_size * line_height;
  const double height = head + total(row) + gap;

  SvgWriter svg;
  svg.open("svg", fmt::format(R"(xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" viewBox="0 0 {0:.0f} {1:.0f}" role="img" )"
                              R"(font-family="Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif")",
                              std::ceil(width), std::ceil(height)));
  svg.note("title", figure.title);
  svg.note("desc", "Made by: " + figure.command);
  svg.note("metadata", figure.command);
  svg.rect({0, 0}, std::ceil(width), std::ceil(height), R"(fill="#fff")");
  for (std::size_t i = 0; i < title.size() && !figure.title.empty(); ++i)
    svg.text({width / 2, gap / 2 + figure_title_size * (1.1 + static_cast<double>(i) * line_height)}, title[i], {figure_title_size, Anchor::middle, true});
  double y = head;
  for (std::size_t r = 0; r < row.size(); ++r) {
    double x = gap;
    for (std::size_t c = 0; c < columns && r * columns + c < layouts.size(); ++c) {
      draw_panel(svg, layouts[r * columns + c], {x + column[c].before, y + row[r].before});
      x += column[c].size();
    }
    y += row[r].size();
  }
  svg.close("svg");
  return svg.take();
}

}  // namespace gradus::tools::plot
