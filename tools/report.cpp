#include "tools/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "engine/core/error.hpp"
#include "tools/text.hpp"

namespace gradus::tools {
namespace {

constexpr std::string_view style = R"(
body { max-width: 72rem; margin: 2rem auto; padding: 0 1.2rem; font: 16px/1.5 Helvetica, Arial, "Liberation Sans", sans-serif; color: #222; background: #fff; }
h1 { font-size: 1.7rem; line-height: 1.25; margin-bottom: 0.4rem; }
h2 { font-size: 1.25rem; margin-top: 2.2rem; border-bottom: 1px solid #ccc; padding-bottom: 0.2rem; }
p { max-width: 46rem; }
code { font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 0.9em; background: #f3f3f3; padding: 0.1em 0.35em; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.92rem; }
caption { text-align: left; padding-bottom: 0.4rem; color: #555; }
th, td { padding: 0.25rem 0.8rem; text-align: left; border-bottom: 1px solid #e4e4e4; }
thead th { border-bottom: 2px solid #888; white-space: nowrap; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1.2rem 0; }
figure svg { max-width: 100%; height: auto; }
figcaption { color: #555; max-width: 46rem; }
@media print { body { margin: 0; max-width: none; } figure, tr { break-inside: avoid; } }
)";

}  // namespace

Report::Report(std::string title, std::string command) : title_(std::move(title)), command_(std::move(command)) {}

void Report::element(std::string_view tag, std::string_view text) { fmt::format_to(std::back_inserter(body_), "<{}>{}</{}>\n", tag, escape_xml(text), tag); }

void Report::heading(std::string_view text) { element("h2", text); }

void Report::paragraph(std::string_view text) { element("p", text); }

void Report::table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows, std::string_view caption) {
  std::vector<bool> numbers(header.size(), !rows.empty());
  for (const auto& row : rows) {
    if (row.size() > header.size()) throw ValueError("report", cat("a row has ", row.size(), " cells, the header has ", header.size()));
    for (std::size_t i = 0; i < row.size(); ++i) numbers[i] = numbers[i] && is_number_cell(row[i]);
  }
  const auto cell = [&](std::string_view tag, std::size_t column, const std::string& text) {
    fmt::format_to(std::back_inserter(body_), "<{}{}>{}</{}>", tag, numbers[column] ? " class=\"n\"" : "", escape_xml(text), tag);
  };
  body_ += "<div class=\"wide\"><table>\n";
  if (!caption.empty()) element("caption", caption);
  body_ += "<thead><tr>";
  for (std::size_t i = 0; i < header.size(); ++i) cell("th", i, header[i]);
  body_ += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    body_ += "<tr>";
    for (std::size_t i = 0; i < header.size(); ++i) cell("td", i, i < row.size() ? row[i] : std::string());
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void Report::figure(std::string_view svg, std::string_view caption) {
  body_ += "<figure>\n";
  body_ += svg;
  if (!caption.empty()) element("figcaption", caption);
  body_ += "</figure>\n";
}

std::string Report::html() const {
  const std::string title = escape_xml(title_), command = escape_xml(command_);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta name=\"generator\" content=\"{1}\"/>\n<title>{0}</title>\n<style>{2}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<p>Made by <code>{1}</code></p>\n{3}"
      "</body>\n</html>\n",
      title, command, style, body_);
}

}  // namespace gradus::tools
