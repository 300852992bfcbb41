// Several schedules side by side.
#pragma once

#include <string>
#include <vector>

#include "bench/ask/schedule_source.hpp"

namespace plumbline {

enum class ComparisonFormat { text, csv, json };

/// A table of makespan, bubbles and peak, one line per schedule. `costs_text` is the text of a costs.json for
/// the stages of the first schedule; a schedule with more or fewer stages scales them. Null: one unit of time
/// for F, I and W of a rank each. Files determine ranks and micro-batches. A schedule that the sizes do not
/// allow has its reason in place of figures. Throws InputError for other faults, files of different sizes
/// among them.
std::string compare_schedules(const ScheduleSource& asked, const std::vector<std::string>& names,
                              const std::string* costs_text,
                              ComparisonFormat format = ComparisonFormat::text);

}  // namespace plumbline
