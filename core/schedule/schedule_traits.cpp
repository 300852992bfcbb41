#include "core/schedule/schedule_traits.hpp"

#include <algorithm>

namespace plumbline {
namespace {

constinit std::span<const ScheduleTraits> handed_schedules;

template <class Condition>
const ScheduleTraits* find_row(const Condition& condition) {
  const auto row = std::find_if(handed_schedules.begin(), handed_schedules.end(), condition);
  return row == handed_schedules.end() ? nullptr : &*row;
}

}  // namespace

std::span<const ScheduleTraits> known_schedules() {
  return handed_schedules;
}

void hand_over_schedules(std::span<const ScheduleTraits> schedules) {
  handed_schedules = schedules;
}

const ScheduleTraits* find_schedule_traits(std::string_view name) {
  return find_row([&](const ScheduleTraits& row) { return row.name == name; });
}

ScheduleTraits schedule_traits(std::string_view name) {
  const ScheduleTraits* traits = find_schedule_traits(name);
  return traits != nullptr ? *traits : ScheduleTraits{.name = name};
}

const ScheduleTraits* find_with_passes(std::string_view base, VocabPasses vocab) {
  if (vocab == VocabPasses::none) return find_schedule_traits(base);
  return find_row([&](const ScheduleTraits& row) { return row.base == base && row.vocab == vocab; });
}

}  // namespace plumbline
