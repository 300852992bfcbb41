// Varied configurations as one table, with their differences to the base by part of the step.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "bench/plan/vary/varied_runs.hpp"
#include "core/base/json_keys.hpp"
#include "core/trace/step_figures.hpp"

namespace plumbline {

/// Parts that add up to a step, in the order of the record.
std::span<const Figure<StepTime>* const> step_parts();
/// "tp 4, recompute_granularity full"; "base" without settings.
std::string title_of(const Overrides& settings);

/// A line for each configuration: its varied keys, verdict, memory, step, and the differences of the parts
/// that change. A table wider than `width` (0: any) is parted in two.
std::string varied_text(const VariedRuns& all, std::size_t width);
/// {"keys", "reference", "fastest", "fastest_not_tight", "runs": [{"number", "settings", "fits", "verdict",
/// "chance", "needed_bytes", "limit_bytes", "peak_bytes", "time", "throughput", "difference":
/// {"step_s", …, "needed_bytes"}} or {"number", "settings", "refusal"}]}; run 0 is the base.
OrderedJson varied_json(const VariedRuns& all);

}  // namespace plumbline
