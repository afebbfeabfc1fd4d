#include "tools/text.hpp"

#include <algorithm>
#include <array>

namespace gradus::tools {
namespace {

struct Interval {
  char32_t first, last;
};

template <std::size_t N>
bool in_any(const std::array<Interval, N>& intervals, char32_t c) noexcept {
  return std::any_of(intervals.begin(), intervals.end(), [c](Interval i) { return c >= i.first && c <= i.last; });
}

// Coarse on purpose: scripts that occur in file and column names, not the whole of Unicode.
constexpr std::array<Interval, 8> zero_width = {
    {{0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x064B, 0x065F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}}};
constexpr std::array<Interval, 9> double_width = {{{0x1100, 0x115F},
                                                   {0x2E80, 0x303E},
                                                   {0x3041, 0xA4CF},
                                                   {0xAC00, 0xD7A3},
                                                   {0xF900, 0xFAFF},
                                                   {0xFE30, 0xFE6F},
                                                   {0xFF00, 0xFF60},
                                                   {0x1F300, 0x1FAFF},
                                                   {0x20000, 0x3FFFD}}};

bool is_text_character(char32_t c) noexcept {
  if (c == '\t' || c == '\n') return true;
  return c >= 0x20 && c != 0x7F && !(c >= 0x80 && c < 0xA0) && c != 0xFFFE && c != 0xFFFF;
}

}  // namespace

char32_t next_character(std::string_view& text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  const std::size_t length = lead < 0x80 ? 1 : lead >= 0xC2 && lead < 0xE0 ? 2 : lead >= 0xE0 && lead < 0xF0 ? 3 : lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
  char32_t c = length < 2 ? lead : lead & (0x7FU >> length);
  bool valid = length > 0 && length <= text.size();
  for (std::size_t i = 1; valid && i < length; ++i) {
    valid = (byte(i) & 0xC0U) == 0x80U;
    c = c << 6U | (byte(i) & 0x3FU);
  }
  const bool too_long = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  if (!valid || too_long || (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF) {
    text.remove_prefix(1);
    return replacement_character;
  }
  text.remove_prefix(length);
  return c;
}

int display_width(std::string_view text) noexcept {
  int width = 0;
  while (!text.empty()) {
    const char32_t c = next_character(text);
    if (!in_any(zero_width, c)) width += in_any(double_width, c) ? 2 : 1;
  }
  return width;
}

std::string escape_xml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t c = next_character(text);
    const std::string_view bytes = before.substr(0, before.size() - text.size());
    const bool malformed = c == replacement_character && bytes.size() == 1;
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += malformed || !is_text_character(c) ? "\xEF\xBF\xBD" : bytes;
    }
  }
  return out;
}

bool is_number_cell(std::string_view text) noexcept {
  if (text.empty() || text == "-" || text == "\xE2\x80\x93" || text == "inf" || text == "-inf" || text == "nan") return true;
  const bool digits_first = text.find_first_of("0123456789") <= text.find_first_not_of("+-.<>=~ ");
  const bool nothing_else = text.find_first_not_of("0123456789+-.,eE%x<>=~ ") == std::string_view::npos;
  return digits_first && nothing_else;
}

}  // namespace gradus::tools
