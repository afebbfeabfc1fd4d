#pragma once
// A page of HTML that stands alone: text, tables and pictures in one file, nothing fetched from anywhere.

#include <string>
#include <string_view>
#include <vector>

namespace gradus::tools {

/// Builds the page from top to bottom. All text is plain: it is escaped here.
class Report {
 public:
  /// `command` made the page; it stands under the title and in the page's metadata.
  Report(std::string title, std::string command);

  void heading(std::string_view text);
  void paragraph(std::string_view text);
  /// Rows of cells below a header; columns of numbers are set flush right. A row with more cells than the header is a
  /// ValueError. The caption, above the table, may be empty.
  void table(const std::vector<std::string>& header, const std::vector<std::vector<std::string>>& rows, std::string_view caption = "");
  /// An SVG file from to_svg, put in as it is.
  void figure(std::string_view svg, std::string_view caption = "");
  [[nodiscard]] std::string html() const;

 private:
  void element(std::string_view tag, std::string_view text);

  std::string title_, command_, body_;
};

}  // namespace gradus::tools
