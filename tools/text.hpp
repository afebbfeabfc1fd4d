#pragma once
// Text as people see it: UTF-8 characters and their widths, escaping for XML, and which cells are numbers.

#include <string>
#include <string_view>

namespace gradus::tools {

/// The replacement character, which stands for anything that is not text.
inline constexpr char32_t replacement_character = 0xFFFD;

/// Takes the next character off the front of UTF-8 text that is not empty. A malformed byte comes out as the replacement
/// character, one byte at a time.
char32_t next_character(std::string_view& text) noexcept;

/// Columns that the text takes on a terminal: 0 for combining marks, 2 for East Asian wide characters and emoji, else 1.
[[nodiscard]] int display_width(std::string_view text) noexcept;

/// `text` safe inside XML and HTML, in content and in quoted attributes: & < > " ' escaped, malformed UTF-8 and control
/// characters replaced.
[[nodiscard]] std::string escape_xml(std::string_view text);

/// True for what a column of numbers holds: "-1.5e-3", "12 %", "1,234", "inf", "-" and the like.
[[nodiscard]] bool is_number_cell(std::string_view text) noexcept;

}  // namespace gradus::tools
