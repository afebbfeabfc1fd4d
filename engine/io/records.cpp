#include "engine/io/records.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/core/error.hpp"

namespace gradus::io {

RecordReader::RecordReader(std::string_view text, char delimiter, std::string where)
    : text_(text), delimiter_(delimiter), where_(std::move(where)) {}

bool RecordReader::skip_to_record() {
  while (at_ < text_.size()) {
    std::size_t start = at_;
    while (start < text_.size() && (text_[start] == ' ' || text_[start] == '\t' || text_[start] == '\r')) ++start;
    if (start == text_.size()) break;
    if (text_[start] != '\n' && text_[start] != '#') return true;
    const std::size_t end = text_.find('\n', start);
    if (end == std::string_view::npos) break;
    at_ = end + 1;
    ++line_;
  }
  return false;
}

void RecordReader::skip_blanks() {
  while (at_ < text_.size() && (text_[at_] == ' ' || (text_[at_] == '\t' && delimiter_ != '\t'))) ++at_;
}

bool RecordReader::at_line_end() const {
  return at_ == text_.size() || text_[at_] == '\n' || (text_[at_] == '\r' && (at_ + 1 == text_.size() || text_[at_ + 1] == '\n'));
}

bool RecordReader::next() {
  fields_.clear();
  unescaped_.clear();
  if (!skip_to_record()) return false;
  record_line_ = line_;
  for (;;) {
    skip_blanks();
    if (delimiter_ == whitespace && !fields_.empty() && at_line_end()) break;  // spaces at the end make no field
    if (at_ < text_.size() && text_[at_] == '"') {
      quoted_field();
    } else {
      plain_field();
    }
    if (at_line_end()) break;
    ++at_;  // the delimiter
  }
  at_ = std::min(text_.find('\n', at_), text_.size());
  if (at_ < text_.size()) {
    ++at_;
    ++line_;
  }
  return true;
}

void RecordReader::plain_field() {
  const std::size_t begin = at_;
  const char other = delimiter_ == whitespace ? '\t' : delimiter_;
  while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != delimiter_ && text_[at_] != other) ++at_;
  std::size_t end = at_;
  while (end > begin && (text_[end - 1] == ' ' || text_[end - 1] == '\t' || text_[end - 1] == '\r')) --end;
  fields_.push_back(text_.substr(begin, end - begin));
}

void RecordReader::quoted_field() {
  std::size_t begin = ++at_;
  std::string* joined = nullptr;
  std::size_t end;
  for (;;) {
    end = text_.find('"', at_);
    if (end == std::string_view::npos) throw IoError(where_, cat("line ", record_line_, " opens a quote that never closes"));
    at_ = end + 1;
    if (at_ == text_.size() || text_[at_] != '"') break;
    if (!joined) joined = &unescaped_.emplace_back();
    joined->append(text_.substr(begin, at_ - begin));  // with one of the two quotes
    begin = ++at_;
  }
  std::string_view field = text_.substr(begin, end - begin);
  line_ += std::count(field.begin(), field.end(), '\n');
  if (joined) {
    line_ += std::count(joined->begin(), joined->end(), '\n');
    joined->append(field);
    field = *joined;
  }
  fields_.push_back(field);
  const std::size_t after = at_;
  skip_blanks();
  const bool separated = at_line_end() || text_[at_] == delimiter_ || (delimiter_ == whitespace && at_ > after);
  if (!separated) throw IoError(where_, cat("line ", line_, " has text behind the closing quote of column ", fields_.size()));
  if (delimiter_ == whitespace && at_ > after && !at_line_end()) --at_;  // next() steps over one blank
}

char detect_delimiter(std::string_view text) {
  constexpr std::array<char, 3> candidates = {'\t', ';', ','};
  constexpr int sample = 20;
  std::array<int, 3> present = {};    // sampled lines that have the candidate at all
  std::array<bool, 3> equal = {true, true, true};
  std::array<std::size_t, 3> first = {};
  int lines = 0;
  for (std::size_t at = 0; at < text.size() && lines < sample;) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const std::size_t start = line.find_first_not_of(" \t\r");
    if (start == std::string_view::npos || line[start] == '#') continue;
    std::array<std::size_t, 3> count = {};
    bool in_quotes = false;
    for (const char c : line) {
      if (c == '"') in_quotes = !in_quotes;
      for (std::size_t i = 0; i < candidates.size(); ++i) count[i] += !in_quotes && c == candidates[i];
    }
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      present[i] += count[i] > 0;
      if (lines == 0) first[i] = count[i];
      equal[i] = equal[i] && count[i] == first[i];
    }
    ++lines;
  }
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (lines > 0 && present[i] == lines && equal[i]) return candidates[i];
  // No candidate is regular: the one in most lines, so that the error speaks of a ragged table and not of odd text.
  const auto most = std::max_element(present.begin(), present.end());
  return *most * 2 > lines ? candidates[static_cast<std::size_t>(most - present.begin())] : whitespace;
}

}  // namespace gradus::io
