// Long schedules by name without their lists of actions.
#pragma once

#include <functional>
#include <optional>

#include "core/schedule/repeated_schedule.hpp"
#include "schedules/make_schedule.hpp"

namespace plumbline {

/// Makes the rest of a step of a generator's compute actions: transfers, the end of the step.
using StepCompletion = std::function<Schedule(const Schedule&)>;

/// The schedule of `request`, completed, from three short ones that each have one period more: with_copies of
/// it is `complete(make_schedule(request))`. Nothing for schedules that do not repeat themselves
/// (ScheduleTraits::repeats), or are too short to be worth it. Throws InputError like make_schedule.
std::optional<RepeatedSchedule> make_repeated(const ScheduleRequest& request, const StepCompletion& complete);

}  // namespace plumbline
