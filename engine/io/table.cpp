#include "engine/io/table.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "engine/core/error.hpp"
#include "engine/core/text.hpp"
#include "engine/io/file.hpp"
#include "engine/io/records.hpp"

namespace gradus::io {
namespace {

using Record = std::vector<std::string>;

/// The number a field holds, in the C locale whatever the user's; nothing for text. May be NaN or infinite.
std::optional<double> number_in(std::string_view field) {
  while (!field.empty() && field.front() == ' ') field.remove_prefix(1);  // only a quoted field has any left
  while (!field.empty() && field.back() == ' ') field.remove_suffix(1);
  if (field.size() > 1 && field[0] == '+' && field[1] != '-') field.remove_prefix(1);
  double value = 0;
  const char* end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, value);
  if (error == std::errc::invalid_argument || stop != end) return std::nullopt;
  if (error == std::errc::result_out_of_range) return HUGE_VAL;
  return value;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

/// Spellings of "no value here", which must not turn a column of numbers into labels.
bool is_missing(std::string_view field) {
  constexpr std::array<std::string_view, 8> spellings = {"", "na", "n/a", "null", "none", "?", "-", "missing"};
  return std::find(spellings.begin(), spellings.end(), lower(field)) != spellings.end();
}

bool is_text(std::string_view field) { return !is_missing(field) && !number_in(field); }

bool is_count(std::string_view field) {
  return !field.empty() && std::all_of(field.begin(), field.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_label_name(std::string_view name) {
  constexpr std::array<std::string_view, 8> known = {"label", "labels", "class", "classes", "target", "species", "cluster", "category"};
  return std::find(known.begin(), known.end(), lower(name)) != known.end();
}

/// Builds a Table from text in one pass, after a look at its first records.
class TableParser {
 public:
  TableParser(std::string_view text, const std::string& where, const TableOptions& options)
      : text_(text), where_(where), options_(options), delimiter_(options.delimiter ? options.delimiter : detect_delimiter(text)) {}

  Table parse();

 private:
  void look_at_first_records();
  [[nodiscard]] bool is_toolkit_header() const;
  [[nodiscard]] bool is_header() const;
  void read_header();
  void choose_label_column();
  [[nodiscard]] index_t named_label_column() const;
  void append(const RecordReader& reader);
  void append_label(std::string_view field);
  void check_announced_rows() const;
  [[nodiscard]] std::string place(index_t line, std::size_t column) const;
  [[noreturn]] void reject(std::string_view field, index_t line, std::size_t column) const;

  std::string_view text_;
  const std::string& where_;
  const TableOptions& options_;
  char delimiter_;
  std::vector<Record> first_;       // the first few records
  std::vector<std::string> names_;  // of all columns, the label's included
  std::size_t width_ = 0;           // columns of every record
  index_t first_line_ = 0;          // the line that set the width
  index_t label_column_ = -1;
  bool toolkit_header_ = false;
  std::vector<std::string> class_names_;  // of the toolkit header; its labels count from 0
  std::unordered_map<std::string, index_t> class_ids_;
  std::string class_key_;
  Table table_;
};

void TableParser::look_at_first_records() {
  constexpr std::size_t sample = 6;
  RecordReader reader(text_, delimiter_, where_);
  while (first_.size() < sample && reader.next()) first_.emplace_back(reader.fields().begin(), reader.fields().end());
  if (first_.empty()) throw IoError(where_, "has no rows");
}

/// scikit-learn's csv files begin "150,4,setosa,versicolor,virginica": rows, number columns, names of the classes.
bool TableParser::is_toolkit_header() const {
  if (options_.header == TableOptions::Header::no || first_.size() < 2) return false;
  const Record& head = first_[0];
  if (head.size() < 3 || !is_count(head[0]) || !is_count(head[1]) || !is_count(first_[1].back())) return false;
  return std::all_of(head.begin() + 2, head.end(), is_text) && std::to_string(first_[1].size() - 1) == head[1];
}

/// Text above numbers. Names may be whole numbers too ("0,1,2,target"), but 5.1 in the first line is data.
bool TableParser::is_header() const {
  if (options_.header != TableOptions::Header::detect) return options_.header == TableOptions::Header::yes;
  const Record& head = first_[0];
  bool above_numbers = false;
  for (std::size_t column = 0; column < head.size(); ++column) {
    if (number_in(head[column])) {
      if (!is_count(head[column])) return false;
      continue;
    }
    if (!is_text(head[column])) continue;
    for (std::size_t row = 1; row < first_.size(); ++row) above_numbers |= column < first_[row].size() && number_in(first_[row][column]).has_value();
  }
  return above_numbers;
}

void TableParser::read_header() {
  toolkit_header_ = is_toolkit_header();
  table_.has_header = toolkit_header_ || is_header();
  if (toolkit_header_) class_names_.assign(first_[0].begin() + 2, first_[0].end());
  else if (table_.has_header) names_ = first_[0];
  if (table_.has_header) first_.erase(first_.begin());
  if (first_.empty()) throw IoError(where_, "has a header line and no rows below it");
}

index_t TableParser::named_label_column() const {
  const auto by_name = std::find(names_.begin(), names_.end(), options_.label);
  if (by_name != names_.end()) return by_name - names_.begin();
  const auto width = static_cast<index_t>(first_[0].size());
  if (options_.label == "first") return 0;
  if (options_.label == "last") return width - 1;
  index_t number = 0;
  const char* end = options_.label.data() + options_.label.size();
  const auto [stop, error] = std::from_chars(options_.label.data(), end, number);
  if (error == std::errc() && stop == end) {
    if (number >= 1 && number <= width) return number - 1;
    throw ValueError(where_, cat("label column ", number, " does not exist: there are ", width, " columns"), "columns count from 1");
  }
  if (names_.empty()) throw ValueError(where_, cat("has no header to find the label column ", excerpt(options_.label), " in"), "give its number, from 1");
  throw ValueError(where_, cat("has no column ", excerpt(options_.label)), suggest_names(options_.label, names_));
}

void TableParser::choose_label_column() {
  const Record& row = first_[0];
  if (options_.label == "none") return;
  if (!options_.label.empty()) {
    label_column_ = named_label_column();
  } else if (toolkit_header_ || is_text(row.back())) {
    label_column_ = static_cast<index_t>(row.size()) - 1;
  } else if (is_text(row.front())) {
    label_column_ = 0;
  } else {
    const auto name = std::find_if(names_.begin(), names_.end(), is_label_name);
    if (name != names_.end()) label_column_ = name - names_.begin();
  }
  if (label_column_ == static_cast<index_t>(row.size()) - 1) table_.classes = class_names_;
}

std::string TableParser::place(index_t line, std::size_t column) const {
  const std::string name = column < names_.size() ? cat(" (", excerpt(names_[column]), ")") : std::string();
  return cat("line ", line, ", column ", column + 1, name);
}

void TableParser::reject(std::string_view field, index_t line, std::size_t column) const {
  const std::string at = place(line, column);
  const auto number = number_in(field);
  if (number && std::isnan(*number)) throw IoError(where_, at + " is NaN", "remove or fill such rows first");
  if (number && lower(field).find("inf") != std::string::npos) throw IoError(where_, at + " is infinite", "remove or fill such rows first");
  if (number) throw IoError(where_, cat(at, " is outside the range of f64: ", excerpt(field)));
  if (is_missing(field)) throw IoError(where_, cat(at, " has no value: ", excerpt(field)), "remove or fill such rows first");
  throw IoError(where_, cat(at, " is not a number: ", excerpt(field)),
                field.find(',') != std::string_view::npos ? "decimals are written with a point" : "name the label column, or remove columns of text");
}

void TableParser::append_label(std::string_view field) {
  if (!class_names_.empty() && is_count(field)) {
    const double id = number_in(field).value_or(HUGE_VAL);
    if (id < static_cast<double>(table_.classes.size())) return table_.labels.push_back(static_cast<index_t>(id));
  }
  class_key_.assign(field);
  const auto [entry, added] = class_ids_.try_emplace(class_key_, static_cast<index_t>(table_.classes.size()));
  if (added) table_.classes.push_back(class_key_);
  table_.labels.push_back(entry->second);
}

void TableParser::append(const RecordReader& reader) {
  const auto& fields = reader.fields();
  if (fields.size() != width_)
    throw IoError(where_, cat("line ", reader.line(), " has ", fields.size(), " columns, the first (line ", first_line_, ") had ", width_));
  for (std::size_t column = 0; column < fields.size(); ++column) {
    if (static_cast<index_t>(column) == label_column_) {
      append_label(fields[column]);
      continue;
    }
    const auto value = number_in(fields[column]);
    if (!value || !std::isfinite(*value)) reject(fields[column], reader.line(), column);
    table_.values.push_back(*value);
  }
  ++table_.rows;
}

void TableParser::check_announced_rows() const {
  RecordReader reader(text_, delimiter_, where_);
  if (!reader.next() || reader.fields()[0] == std::to_string(table_.rows)) return;
  throw IoError(where_, cat("announces ", excerpt(reader.fields()[0]), " rows and has ", table_.rows), "the file may have been cut short");
}

Table TableParser::parse() {
  look_at_first_records();
  read_header();
  choose_label_column();
  const std::size_t labels = label_column_ >= 0 ? 1 : 0;
  if (first_[0].size() == labels) throw IoError(where_, "has no number columns");

  RecordReader reader(text_, delimiter_, where_);
  bool more = reader.next();
  if (more && table_.has_header) {
    width_ = toolkit_header_ ? 0 : reader.fields().size();
    first_line_ = reader.line();
    more = reader.next();
  }
  if (width_ == 0) {
    width_ = reader.fields().size();
    first_line_ = reader.line();
  }
  for (; more; more = reader.next()) append(reader);

  if (toolkit_header_) check_announced_rows();
  table_.columns = static_cast<index_t>(width_ - labels);
  if (labels && !names_.empty()) {
    table_.label_name = names_[static_cast<std::size_t>(label_column_)];
    names_.erase(names_.begin() + label_column_);
  }
  table_.names = std::move(names_);
  return std::move(table_);
}

}  // namespace

Table parse_table(std::string_view text, const std::string& where, const TableOptions& options) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  constexpr std::size_t looked_at = 4096;
  if (text.substr(0, looked_at).find('\0') != std::string_view::npos)
    throw IoError(where, "is not a text table: it holds binary data", "csv, tsv, whitespace text (gzipped or not) and npy are read");
  return TableParser(text, where, options).parse();
}

Table read_table(const std::string& path, const TableOptions& options) { return parse_table(read_file(path), path, options); }

}  // namespace gradus::io
