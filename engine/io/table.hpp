#pragma once
// Tables of points in text: csv, tsv or whitespace between the columns, with or without a header line and a label column.

#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.hpp"

namespace gradus::io {

/// How to read a table. The defaults recognise everything.
struct TableOptions {
  enum class Header { detect, yes, no };
  /// Whether the first line holds names. `detect`: it does when it has text in a column that has numbers below.
  Header header = Header::detect;
  /// The label column: a header name, else a column number from 1, "first" or "last"; "none" when all columns are numbers.
  /// Empty: a text column at either end, else a column called label, class, target, species or cluster.
  std::string label;
  /// Between the columns: ',', ';', '\t', ' ' for any run of blanks; 0 recognises it.
  char delimiter = 0;
};

/// Points and, where there is a label column, the class of each.
struct Table {
  index_t rows = 0;
  index_t columns = 0;               ///< number columns; the label is not one
  std::vector<double> values;        ///< row-major, rows x columns, all finite
  std::vector<std::string> names;    ///< of the number columns; empty without a header
  std::vector<index_t> labels;       ///< one per row, an index into `classes`; empty without a label column
  std::vector<std::string> classes;  ///< class names in order of first appearance, or as the header lists them
  std::string label_name;            ///< of the label column; empty without a header
  bool has_header = false;
};

/// Parses a table. `where` names the source in errors. Throws IoError for ragged rows, text, gaps, NaN or infinity in a
/// number column (each named by line and column), a table without rows or without number columns; ValueError for a label
/// option that fits no column. The first line may also be scikit-learn's "rows,columns,class names...".
[[nodiscard]] Table parse_table(std::string_view text, const std::string& where, const TableOptions& options = {});

/// Reads a table from a file, gzipped or not; see read_file and parse_table.
[[nodiscard]] Table read_table(const std::string& path, const TableOptions& options = {});

}  // namespace gradus::io
