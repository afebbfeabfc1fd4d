#include "tools/reproduction.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/console.hpp"

namespace gradus::tools {
namespace {

std::string short_number(double value) { return fmt::format("{:.4g}", value); }

const char* name_of(Source source) {
  switch (source) {
    case Source::published: return "published";
    case Source::derived: return "derived";
    case Source::none: break;
  }
  return nullptr;
}

}  // namespace

std::optional<double> deviation(const ReproductionRow& row) { return row.source == Source::none ? std::nullopt : std::optional(row.measured - row.published); }

std::string published_text(const ReproductionRow& row) {
  if (row.source == Source::none) return "-";
  return short_number(row.published) + (row.source == Source::derived ? " (derived)" : "");
}

const std::vector<std::string>& reproduction_header() {
  static const std::vector<std::string> header{"measure", "published", "measured", "within", "min", "1st quartile", "3rd quartile", "max"};
  return header;
}

std::vector<std::string> reproduction_cells(const ReproductionRow& row) {
  std::string within = "-";
  if (row.within) within = (*row.within ? "yes: " : "NO: ") + row.criterion;
  const Distribution& s = row.spread;
  return {row.name,
          published_text(row),
          short_number(row.measured),
          within,
          short_number(s.min),
          short_number(s.lower_quartile),
          short_number(s.upper_quartile),
          short_number(s.max)};
}

Json reproduction_json(const std::vector<ReproductionRow>& rows) {
  Json list = Json::array();
  for (const ReproductionRow& row : rows) {
    Json entry;
    entry["name"] = row.name;
    entry["published"] = row.source == Source::none ? Json(nullptr) : number_or_null(row.published);
    entry["measured"] = number_or_null(row.measured);
    entry["deviation"] = deviation(row) ? number_or_null(*deviation(row)) : Json(nullptr);
    entry["seeds"] = row.seeds;
    entry["within"] = row.within ? Json(*row.within) : Json(nullptr);
    entry["note"] = row.note;
    entry["source"] = row.source == Source::none ? Json(nullptr) : Json(name_of(row.source));
    entry["criterion"] = row.criterion;
    const Distribution& s = row.spread;
    entry["distribution"] = {number_or_null(s.min), number_or_null(s.lower_quartile), number_or_null(s.median), number_or_null(s.upper_quartile),
                             number_or_null(s.max)};
    list.push_back(std::move(entry));
  }
  return list;
}

void add_reproduction_table(Report& report, const std::vector<ReproductionRow>& rows, std::string_view caption) {
  std::vector<std::vector<std::string>> cells;
  for (const ReproductionRow& row : rows) {
    cells.push_back(reproduction_cells(row));
    cells.back().push_back(row.note);
  }
  std::vector<std::string> header = reproduction_header();
  header.emplace_back("note");
  report.table(header, cells, caption);
}

void require_within(const std::vector<ReproductionRow>& rows) {
  if (!all_within(rows)) throw FailedRun("a judged row is not within its criterion");
}

bool all_within(const std::vector<ReproductionRow>& rows) {
  return std::none_of(rows.begin(), rows.end(), [](const ReproductionRow& row) { return row.within == false; });
}

}  // namespace gradus::tools
