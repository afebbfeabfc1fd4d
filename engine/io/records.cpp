#include "engine/io/records.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/core/error.hpp"

namespace gradus::io {

RecordReader::RecordReader(std::string_view text, char delimiter, std::string where) : text_(text), delimiter_(delimiter), where_(std::move(where)) {}

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

namespace {

/// What the first lines say about one candidate for the delimiter.
struct Candidate {
  char delimiter;
  int lines_with = 0;
  bool regular = true;  // as often in every line as in the first
  std::size_t in_first = 0, in_line = 0;
};

}  // namespace

char detect_delimiter(std::string_view text) {
  constexpr int sample = 20;
  std::array<Candidate, 3> candidates = {Candidate{'\t'}, Candidate{';'}, Candidate{','}};
  int lines = 0;
  for (std::size_t at = 0; at < text.size() && lines < sample; ++at) {
    const std::size_t start = text.find_first_not_of(" \t\r\n", at);
    if (start == std::string_view::npos) break;
    const bool comment = text[start] == '#';
    for (Candidate& candidate : candidates) candidate.in_line = 0;
    bool in_quotes = false;
    for (at = start; at < text.size() && (text[at] != '\n' || (in_quotes && !comment)); ++at) {
      if (text[at] == '"') in_quotes = !in_quotes;
      for (Candidate& candidate : candidates) candidate.in_line += !in_quotes && text[at] == candidate.delimiter;
    }
    if (comment) continue;
    for (Candidate& candidate : candidates) {
      if (lines == 0) candidate.in_first = candidate.in_line;
      candidate.regular = candidate.regular && candidate.in_line == candidate.in_first;
      candidate.lines_with += candidate.in_line > 0;
    }
    ++lines;
  }
  for (const Candidate& candidate : candidates)
    if (candidate.regular && candidate.in_first > 0) return candidate.delimiter;
  // None is regular: the one in most lines, so that the error speaks of a ragged table and not of odd text.
  const auto fewer = [](const Candidate& a, const Candidate& b) { return a.lines_with < b.lines_with; };
  const auto most = std::max_element(candidates.begin(), candidates.end(), fewer);
  return most->lines_with * 2 > lines ? most->delimiter : whitespace;
}

}  // namespace gradus::io
