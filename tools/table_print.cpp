#include "tools/table_print.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "engine/core/error.hpp"
#include "tools/text.hpp"

namespace gradus::tools {
namespace {

constexpr std::string_view between_columns = "  ";

/// Cells come from files too: a control character must not reach the terminal, nor break the line.
std::string printable(std::string_view cell) {
  std::string out;
  while (!cell.empty()) {
    const std::string_view before = cell;
    const char32_t c = next_character(cell);
    const std::string_view bytes = before.substr(0, before.size() - cell.size());
    const bool odd = c < 0x20 || (c >= 0x7F && c < 0xA0) || (c == replacement_character && bytes.size() == 1);
    out += odd ? "?" : bytes;
  }
  return out;
}

}  // namespace

bool standard_output_has_colour() {
  const char* off = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return (off == nullptr || *off == '\0') && terminal != nullptr && std::string_view(terminal) != "dumb" && ::isatty(STDOUT_FILENO) == 1;
}

TablePrinter::TablePrinter(std::vector<std::string> header) : header_(std::move(header)) {
  for (std::string& cell : header_) cell = printable(cell);
}

void TablePrinter::add_row(std::vector<std::string> cells) {
  if (cells.size() > header_.size()) throw ValueError("table", cat("a row has ", cells.size(), " cells, the header has ", header_.size()));
  cells.resize(header_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

void TablePrinter::add_rule() { rows_.emplace_back(); }

std::vector<TablePrinter::Column> TablePrinter::measure() const {
  std::vector<Column> columns(header_.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    columns[i].width = display_width(header_[i]);
    bool any = false;
    for (const auto& row : rows_) {
      if (row.empty()) continue;
      columns[i].width = std::max(columns[i].width, display_width(row[i]));
      columns[i].right = columns[i].right && is_number_cell(row[i]);
      any = any || !row[i].empty();
    }
    columns[i].right = columns[i].right && any;
  }
  return columns;
}

std::string TablePrinter::line_of(const std::vector<std::string>& cells, const std::vector<Column>& columns) {
  std::string line;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string padding(static_cast<std::size_t>(columns[i].width - display_width(cells[i])), ' ');
    if (i > 0) line += between_columns;
    line += columns[i].right ? padding + cells[i] : cells[i] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string TablePrinter::text(bool colour) const {
  const std::vector<Column> columns = measure();
  std::size_t width = columns.empty() ? 0 : between_columns.size() * (columns.size() - 1);
  for (const Column& column : columns) width += static_cast<std::size_t>(column.width);
  const std::string rule = std::string(width, '-') + "\n";
  std::string out = (colour ? "\x1b[1m" : "") + line_of(header_, columns) + (colour ? "\x1b[0m" : "") + "\n" + rule;
  for (const auto& row : rows_) out += row.empty() ? rule : line_of(row, columns) + "\n";
  return out;
}

}  // namespace gradus::tools
