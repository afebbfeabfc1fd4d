#pragma once
// Rows "published | measured | within" that every `gradus reproduce` command prints and writes.

#include <optional>
#include <string>
#include <vector>

#include "tools/distribution.hpp"
#include "tools/json_output.hpp"
#include "tools/report.hpp"

namespace gradus::tools {

/// Where a value to compare with comes from.
enum class Source : std::uint8_t {
  none,       ///< there is none
  published,  ///< printed in the paper or its figures
  derived,    ///< found by running the published recipe again
};

/// One comparison.
struct ReproductionRow {
  std::string name;
  Source source = Source::none;
  double published = 0;  ///< when there is a source
  double measured = 0;
  Distribution spread;  ///< over the seeds
  int seeds = 0;
  std::optional<bool> within;  ///< judged against `criterion`; none: reported only
  std::string criterion, note;
};

/// measured - published; none without a source.
[[nodiscard]] std::optional<double> deviation(const ReproductionRow& row);
/// "4.59", "4.59 (derived)", "-".
[[nodiscard]] std::string published_text(const ReproductionRow& row);
/// Rows as the lines and cells of a table, for people.
[[nodiscard]] const std::vector<std::string>& reproduction_header();
[[nodiscard]] std::vector<std::string> reproduction_cells(const ReproductionRow& row);
/// The "rows" of the command's JSON.
[[nodiscard]] Json reproduction_json(const std::vector<ReproductionRow>& rows);
/// The rows with their notes as a table of a page.
void add_reproduction_table(Report& report, const std::vector<ReproductionRow>& rows, std::string_view caption);
/// Throws the FailedRun of a judged row that is not within its criterion.
void require_within(const std::vector<ReproductionRow>& rows);
/// True when no judged row failed.
[[nodiscard]] bool all_within(const std::vector<ReproductionRow>& rows);

}  // namespace gradus::tools
