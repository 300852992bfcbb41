// Several schedules side by side.
#pragma once

#include <string>
#include <vector>

#include "bench/commands/schedules/schedule_source.hpp"

namespace plumbline {

/// A table of makespan, bubbles and peak, one line per schedule. `costs_text` is the text of a costs.json
/// whose single stage entry holds the times of a whole rank (stages take their share), or null for one unit
/// of time for F, I and W each. A schedule that the sizes do not allow has its reason in place of figures.
/// Throws InputError for other faults.
std::string compare_schedules(const ScheduleSource& source, const std::vector<std::string>& names,
                              const std::string* costs_text);

}  // namespace plumbline
