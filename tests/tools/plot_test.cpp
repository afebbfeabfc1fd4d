#include "tools/plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "engine/core/error.hpp"
#include "tests/catch.hpp"
#include "tests/tools/xml_check.hpp"
#include "tools/plot_data.hpp"
#include "tools/report.hpp"
#include "tools/svg.hpp"

using namespace gradus::tools::plot;
using gradus::testing::parse_xml;
using gradus::testing::XmlElement;

namespace {

Series series(Series::Kind kind, std::string name, std::size_t count, double step = 1) {
  Series s{std::move(name), kind, {}, {}, -1};
  for (std::size_t i = 0; i < count; ++i) {
    s.x.push_back(static_cast<double>(i) * step);
    s.y.push_back(std::sin(static_cast<double>(i)));
  }
  return s;
}

Figure figure_of(Panel panel) {
  Figure figure;
  figure.title = "title";
  figure.command = "command";
  figure.panels.push_back(std::move(panel));
  return figure;
}

/// All text a reader sees.
std::string visible_text(const XmlElement& svg) {
  std::string all;
  for (const XmlElement* text : svg.all("text")) all += text->text + "\n";
  return all;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("a figure is well-formed XML that names title, axes, units, legend and command") {
  Panel panel;
  panel.title = "left <panel> & \"more\"";
  panel.x.label = "step";
  panel.y.label = "time";
  panel.y.unit = "s";
  panel.series = {series(Series::Kind::points, "dots <1>", 10), series(Series::Kind::line, "line & co", 10), series(Series::Kind::path, "path", 5)};
  panel.levels = {{"published", 0.5}};
  panel.note = "a note";
  Figure figure = figure_of(panel);
  figure.title = "<b> & 'title' \x01\xFF";
  figure.command = "gradus kmeans run \"a<b>&c.csv\"";
  const XmlElement svg = parse_xml(to_svg(figure));
  CHECK(svg.tag == "svg");
  CHECK(svg.attribute("xmlns") == "http://www.w3.org/2000/svg");
  CHECK(svg.all("title")[0]->text == "<b> & 'title' \uFFFD\uFFFD");
  CHECK(svg.all("metadata")[0]->text == figure.command);
  const std::string text = visible_text(svg);
  for (const char* part : {"<b> & 'title'", "left <panel> & \"more\"", "step", "time (s)", "dots <1>", "line & co", "path", "published", "a note"}) {
    INFO(part);
    CHECK(has(text, part));
  }
}

TEST_CASE("the same figure gives the same bytes") {
  Panel panel;
  panel.series = {series(Series::Kind::points, "", 20000)};
  CHECK(to_svg(figure_of(panel)) == to_svg(figure_of(panel)));
}

TEST_CASE("large sets are thinned to a number that the caption names") {
  Panel panel;
  panel.series = {series(Series::Kind::points, "big", 999'000), series(Series::Kind::points, "small", 1000)};
  const std::string svg = to_svg(figure_of(panel));
  CHECK(has(visible_text(parse_xml(svg)), "5,015 of 1,000,000 points are drawn."));
  // Every dot is a stroke of no length; the legend has one a series.
  CHECK(count_of(svg, "h0") == 5015 + 2);
  CHECK(svg.size() < 200'000);
  panel.series = {series(Series::Kind::points, "all", 5000)};
  const std::string whole = to_svg(figure_of(panel));
  CHECK(count_of(whole, "h0") == 5000 + 1);
  CHECK_FALSE(has(whole, "are drawn"));
}

TEST_CASE("thinning takes one index from each equal part, in order") {
  for (const auto& [count, keep] : {std::pair<std::size_t, std::size_t>{10, 10}, {10, 3}, {1000003, 5000}, {7, 1}, {0, 0}}) {
    const std::vector<std::size_t> chosen = choose(count, keep);
    REQUIRE(chosen.size() == keep);
    for (std::size_t i = 0; i < keep; ++i) {
      REQUIRE(chosen[i] >= i * count / keep);
      REQUIRE(chosen[i] < (i + 1) * count / keep);
    }
  }
}

TEST_CASE("a long line keeps its extremes") {
  Panel panel;
  panel.series = {series(Series::Kind::line, "", 100'000)};
  panel.series[0].y[54321] = 50;
  panel.series[0].y[12345] = -50;
  const std::string svg = to_svg(figure_of(panel));
  CHECK(svg.size() < 100'000);
  const double top = panel.height * (0.04 / 1.08), bottom = panel.height - top;
  CHECK(has(svg, fmt::format(" {:.1f}", top)));
  CHECK(has(svg, fmt::format(" {:.1f}", bottom)));
}

TEST_CASE("values that an axis cannot show are left out, break lines, and are counted") {
  Panel panel;
  panel.y.scale = Scale::log;
  Series line{"line", Series::Kind::line, {0, 1, 2, 3, 4, 5}, {1, 10, -1, 10, 0, 1}, -1};
  line.x[5] = std::numeric_limits<double>::quiet_NaN();
  panel.series = {line};
  panel.levels = {{"below", -3}};
  const std::string svg = to_svg(figure_of(panel));
  CHECK(has(visible_text(parse_xml(svg)), "4 left out: not finite, or not positive on a log axis."));
  CHECK_FALSE(has(svg, "nan"));
  CHECK_FALSE(has(svg, "inf"));
}

TEST_CASE("curves that coincide both stay visible") {
  Panel panel;
  panel.series = {series(Series::Kind::line, "a", 10), series(Series::Kind::line, "b", 10)};
  std::vector<const XmlElement*> curves;
  const XmlElement svg = parse_xml(to_svg(figure_of(panel)));
  for (const XmlElement* path : svg.all("path"))
    if (path->attribute("fill") == "none" && (path->attribute("stroke") == colour(0) || path->attribute("stroke") == colour(1))) curves.push_back(path);
  REQUIRE(curves.size() == 2);
  CHECK(curves[0]->attribute("d") == curves[1]->attribute("d"));
  CHECK(std::stod(curves[0]->attribute("stroke-width")) > std::stod(curves[1]->attribute("stroke-width")));
  CHECK(curves[0]->attribute("stroke-dasharray").empty());
  CHECK_FALSE(curves[1]->attribute("stroke-dasharray").empty());
}

TEST_CASE("empty, single and degenerate figures are drawn") {
  Panel empty, single, vertical;
  single.series = {series(Series::Kind::path, "one", 1)};
  vertical.series = {Series{"v", Series::Kind::points, {2, 2, 2}, {1, 5, 1e300}, -1}};
  vertical.equal_units = true;
  Figure figure;
  CHECK_NOTHROW(parse_xml(to_svg(figure)));
  figure.panels = {empty, single, vertical, empty, empty};
  figure.columns = 2;
  const std::string svg = to_svg(figure);
  CHECK_NOTHROW(parse_xml(svg));
  CHECK_FALSE(has(svg, "nan"));
  single.series[0].y.clear();
  CHECK_THROWS_AS(to_svg(figure_of(single)), gradus::ValueError);
}

TEST_CASE("equal units make a circle round") {
  Panel panel;
  panel.equal_units = true;
  panel.width = 400;
  panel.height = 200;
  panel.series = {Series{"", Series::Kind::path, {0, 3, 3}, {0, 0, 4}, -1}};
  const XmlElement svg = parse_xml(to_svg(figure_of(panel)));
  double x[3], y[3];
  bool found = false;
  for (const XmlElement* path : svg.all("path"))
    if (path->attribute("stroke-width") == "1.5")
      found = std::sscanf(path->attribute("d").c_str(), "M%lf %lfL%lf %lfL%lf %lf", &x[0], &y[0], &x[1], &y[1], &x[2], &y[2]) == 6;
  REQUIRE(found);
  CHECK((y[1] - y[2]) / (x[1] - x[0]) == Approx(4.0 / 3).epsilon(0.01));
}

TEST_CASE("series beyond the palette differ in shape") {
  for (int a = 0; a < colours * markers; ++a)
    for (int b = 0; b < a; ++b) CHECK((colour(a) != colour(b) || marker(a) != marker(b)));
}

TEST_CASE("boxes show median, quartiles, groups and categories") {
  Panel panel;
  panel.x.label = "temperature";
  for (const char* category : {"1", "10", "inf"})
    for (const char* group : {"A", "B"}) panel.boxes.push_back({category, group, {1, 2, 3, 4, 5}});
  panel.boxes.push_back({"none", "A", {}});
  const std::string bytes = to_svg(figure_of(panel));
  const XmlElement svg = parse_xml(bytes);
  const auto rects = svg.all("rect");
  CHECK(std::count_if(rects.begin(), rects.end(), [](const XmlElement* r) { return !r->attribute("fill-opacity").empty() && r->attribute("width") != "16"; }) ==
        6);
  for (const char* part : {"temperature", "10", "inf", "none", "A", "B", "Boxes: median and quartiles"}) CHECK(has(visible_text(svg), part));
}

TEST_CASE("long legends wrap and end, long names are cut inside the picture") {
  Panel panel;
  for (int i = 0; i < 64; ++i) panel.series.push_back(series(Series::Kind::points, "cluster number " + std::to_string(i), 3));
  panel.series[0].name = std::string(500, 'W');
  panel.title = std::string(500, 'x') + " " + std::string(30, 'y');
  const XmlElement svg = parse_xml(to_svg(figure_of(panel)));
  CHECK(has(visible_text(svg), "more series are not listed"));
  for (const XmlElement* text : svg.all("text")) CHECK(text_width(text->text, std::stod(text->attribute("font-size"))) <= std::stod(svg.attribute("width")));
}

TEST_CASE("wrapping keeps every word and the width") {
  const std::vector<std::string> lines = wrap("one two three four five", 80, 12);
  std::string joined;
  for (const std::string& line : lines) {
    CHECK(text_width(line, 12) <= 80);
    joined += (joined.empty() ? "" : " ") + line;
  }
  CHECK(joined == "one two three four five");
  CHECK(lines.size() > 1);
  CHECK(wrap("", 80, 12).size() == 1);
}

TEST_CASE("a report is one well-formed page without outside resources") {
  gradus::tools::Report report("A <title> & more", "gradus reproduce \"x\"");
  report.heading("Heading <1>");
  report.paragraph("Text with <b>tags</b> & signs.");
  report.table({"name", "value"}, {{"a<b", "1.5"}, {"only name"}}, "A caption & more");
  Panel panel;
  panel.series = {series(Series::Kind::line, "l", 5)};
  report.figure(to_svg(figure_of(panel)), "Figure <1>");
  const std::string html = report.html();
  const XmlElement page = parse_xml(html);
  CHECK(page.tag == "html");
  CHECK(page.all("h1")[0]->text == "A <title> & more");
  CHECK(page.all("code")[0]->text == "gradus reproduce \"x\"");
  CHECK(page.all("p")[1]->text == "Text with <b>tags</b> & signs.");
  CHECK(page.all("svg").size() == 1);
  const auto cells = page.all("td");
  REQUIRE(cells.size() == 4);
  CHECK(cells[0]->text == "a<b");
  CHECK(cells[1]->attribute("class") == "n");
  CHECK(cells[0]->attribute("class").empty());
  CHECK(count_of(html, "http") == 1);  // the name space of SVG
  for (const char* outside : {"src=", "href=", "url(", "@import", "<script", "<link"}) CHECK_FALSE(has(html, outside));
  CHECK_THROWS_AS(report.table({"a"}, {{"1", "2"}}), gradus::ValueError);
}
