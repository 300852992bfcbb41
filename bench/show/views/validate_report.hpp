// Predicted against published, as text, JSON and a plot.
#pragma once

#include <string>
#include <vector>

#include "analysis/published/leave_one_out.hpp"
#include "analysis/published/published.hpp"

namespace plumbline {

/// One line per table and quantity, and how many rows were skipped; with `rows` also every row.
std::string validation_text(const std::vector<ComparedTable>& tables, bool rows);
/// A line per failure of unreadable rows: "runs.csv: rows 1, 4: hardware: found ...".
std::vector<std::string> unreadable_lines(const std::vector<ComparedTable>& tables);
/// {"tables": [{"name", "rows", "mape", "bias", "p90", "worst", "regret", "quantities", "comparisons",
///   "skipped": [{"row", "reason"}]}],
///   "groups": {"hardware": [{"value", "quantity", "rows", "mape", ...}], ...},
///   "not_modelled": {feature: rows}, "held_out", "changes" (published_errors.hpp)}
/// The figures of a table are those of its step times, or of its only quantity. The row of a whole skipped
/// table is null.
std::string validation_json(const std::vector<ComparedTable>& tables);
/// One line per value of a trait (source, hardware, software, precision, parallelism) and quantity. Throws
/// InputError for another.
std::string validation_groups_text(const std::vector<ComparedTable>& tables, const std::string& key);
/// Predicted ÷ published of every row, one strip per table, as an SVG picture.
std::string validation_svg(const std::vector<ComparedTable>& tables);

/// One line per table left out: its error with the shipped constants and with those the others choose.
std::string leave_one_out_text(const std::vector<LeftOut>& list);

}  // namespace plumbline
