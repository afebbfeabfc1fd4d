#pragma once
// Aligned tables for people.

#include <string>
#include <string_view>
#include <vector>

namespace gradus::tools {

/// True when standard output is a terminal that takes colours and NO_COLOR is not set.
[[nodiscard]] bool standard_output_has_colour();

/// A table with a header line. Columns of numbers are set flush right, others flush left; widths count characters as they
/// show, not bytes.
class TablePrinter {
 public:
  explicit TablePrinter(std::vector<std::string> header);
  /// One cell a column; fewer leave the rest empty, more are a ValueError.
  void add_row(std::vector<std::string> cells);
  /// A line across the table, between groups of rows.
  void add_rule();
  [[nodiscard]] bool empty() const noexcept { return rows_.empty(); }
  /// The table, a line each for header, rule and rows. Colour (a bold header, nothing else) where standard output shows it.
  [[nodiscard]] std::string text() const { return text(standard_output_has_colour()); }
  [[nodiscard]] std::string text(bool colour) const;

 private:
  struct Column {
    int width = 0;
    bool right = true;  // only numbers below the header
  };
  [[nodiscard]] std::vector<Column> measure() const;
  static std::string line_of(const std::vector<std::string>& cells, const std::vector<Column>& columns);

  std::vector<std::string> header_;
  std::vector<std::vector<std::string>> rows_;  // an empty row is a rule
};

}  // namespace gradus::tools
