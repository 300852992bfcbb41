// The schedule that a table of schedules describes; `analysis` cannot make one itself.
#pragma once

#include <functional>
#include <string>

#include "analysis/simulate/costs.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/repeated_schedule.hpp"
#include "core/schedule/vocab_passes.hpp"

namespace plumbline {

struct ScheduleNeed {
  std::string name;  // as in schedules/make_schedule.hpp
  int pipeline = 1;
  int microbatches = 1;
  int chunks = 1;
  VocabPasses vocabulary = VocabPasses::none;
};

/// Functions that make schedules. `of_run`: a configuration's whole step. `alone`: the passes without
/// transfers and the end of the step; `costs` decide the order of vocabulary passes. Both throw InputError if
/// there is none.
struct ScheduleMakers {
  std::function<RepeatedSchedule(const RunConfig&)> of_run;
  std::function<Schedule(const ScheduleNeed& need, const Costs& costs)> alone;
};

}  // namespace plumbline
