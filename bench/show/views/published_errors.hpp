// Published errors of predictions for similar runs.
#pragma once

#include <string>
#include <vector>

#include "analysis/published/published.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// {SOFTWARE: {"dense" | "mixture": {"step_s" | "peak_bytes":
///   {"rows", "mape", "interval_rows", "low", "high"}}}},
/// in alphabetical order: the content of results/published/errors_by_software.json. `low` and `high` are
/// published ÷ predicted (analysis/published/error_intervals.hpp).
OrderedJson errors_by_software(const std::vector<ComparedTable>& tables);

/// Number of each table's rows inside the 80 % intervals that the other tables give: a table, one line each.
std::string held_out_text(const std::vector<ComparedTable>& tables);
/// The same as {"step_s" | "peak_bytes": {"rows", "inside", "tables": [{"name", "rows", "inside",
/// "width"}]}}.
OrderedJson held_out_json(const std::vector<ComparedTable>& tables);

/// Predicted effect of the changes that sources made between two of their runs, a line per respect; with
/// `rows` also every change.
std::string changes_text(const std::vector<ComparedTable>& tables, bool rows);
/// The same as a list of {"respect", "quantity", "changes", "scored", "right", "median", "runs": [{"table",
/// "from", "to", "predicted", "published"}]}.
OrderedJson changes_json(const std::vector<ComparedTable>& tables);

}  // namespace plumbline
