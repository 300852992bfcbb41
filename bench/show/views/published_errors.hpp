// Published errors of predictions for similar runs.
#pragma once

#include <string>
#include <vector>

#include "analysis/published/published.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// Traits that the error of a row depends on, {"origin", "kind", "software", "hardware", "gpus",
/// "tokens_per_gpu", "peak_tflops", "bits"}: columns of analysis/published/errors.csv.
OrderedJson kind_json(const RunTraits& traits);

/// Number of each table's rows inside the 80 % intervals of other sources' comparable runs, a line each.
std::string held_out_text(const std::vector<ComparedTable>& tables);
/// As JSON: {"step_s" | "peak_bytes": {"rows", "none", "inside", "tables": [{"name", "rows",
/// "none", "inside", "width"}]}}.
OrderedJson held_out_json(const std::vector<ComparedTable>& tables);

/// Predicted effect of the changes that sources made between two of their runs, a line per respect; with
/// `rows` also every change.
std::string changes_text(const std::vector<ComparedTable>& tables, bool rows);
/// The same as a list of {"respect", "quantity", "changes", "scored", "right", "median", "runs": [{"table",
/// "from", "to", "predicted", "published"}]}.
OrderedJson changes_json(const std::vector<ComparedTable>& tables);

}  // namespace plumbline
