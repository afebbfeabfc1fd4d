#pragma once
// Text tables cut into records and fields: comma, semicolon, tab or whitespace between fields, quotes, comments.

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/dtype.hpp"

namespace gradus::io {

/// The delimiter that stands for any run of spaces and tabs.
inline constexpr char whitespace = ' ';

/// Reads records from text in one pass. Blank lines and lines that start with # are skipped; lines end in LF or CRLF; a
/// field in double quotes may hold delimiters, line ends and doubled quotes; spaces around a field are dropped.
class RecordReader {
 public:
  /// `text` must outlive the reader. `where` names the source in errors.
  RecordReader(std::string_view text, char delimiter, std::string where);
  /// Advances to the next record; false at the end. A quote that never closes is an IoError.
  [[nodiscard]] bool next();
  /// The fields of the record, valid until the next call of next().
  [[nodiscard]] const std::vector<std::string_view>& fields() const noexcept { return fields_; }
  /// The line, counted from 1, on which the record starts.
  [[nodiscard]] index_t line() const noexcept { return record_line_; }

 private:
  [[nodiscard]] bool skip_to_record();
  void skip_blanks();
  [[nodiscard]] bool at_line_end() const;
  void plain_field();
  void quoted_field();

  std::string_view text_;
  std::size_t at_ = 0;
  char delimiter_;
  std::string where_;
  index_t line_ = 1, record_line_ = 0;
  std::vector<std::string_view> fields_;
  std::deque<std::string> unescaped_;  // fields with doubled quotes, which cannot be views of the text
};

/// The delimiter of a table, from its first lines: tab, semicolon, comma, else whitespace.
[[nodiscard]] char detect_delimiter(std::string_view text);

}  // namespace gradus::io
