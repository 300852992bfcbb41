#include "bench/commands/schedules/schedule_list.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "core/schedule/schedule_traits.hpp"
#include "schedules/make_schedule.hpp"

namespace plumbline {
namespace {

std::string stages_of_rank(const ScheduleTraits& traits) {
  switch (traits.placement) {
    case StagePlacement::one:
      return "1";
    case StagePlacement::round_robin:
      return "2, or --chunks";
    case StagePlacement::v_shape:
      return "2, in a V";
    case StagePlacement::two_copies:
      return "1 of each of 2 copies";
  }
  return "";
}

std::vector<std::string> notes_on(const ScheduleTraits& traits) {
  std::vector<std::string> notes;
  if (traits.vocab != VocabPasses::none)
    notes.push_back(fmt::format("{} with vocabulary parallelism", traits.base));
  if (traits.teacher) notes.emplace_back("with teacher forwards (distillation)");
  if (traits.order != OrderFrom::sizes) notes.emplace_back("order depends on action times");
  if (traits.whole_groups) notes.emplace_back("micro-batches in groups, multiples fastest");
  return notes;
}

}  // namespace

std::string schedule_list() {
  std::string text = fmt::format("{:<16} {:<22} {:<10} {}\n", "schedule", "stages per rank", "backward", "");
  for (const std::string_view name : schedule_names()) {
    const ScheduleTraits traits = schedule_traits(name);
    const std::string line =
        fmt::format("{:<16} {:<22} {:<10} {}", name, stages_of_rank(traits),
                    traits.split_backward ? "I and W" : "B", fmt::join(notes_on(traits), "; "));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  return text + "B: whole backward; I and W: input gradient and weight gradient separately\n";
}

OrderedJson schedule_list_json() {
  OrderedJson schedules = OrderedJson::array();
  for (const std::string_view name : schedule_names()) {
    const ScheduleTraits traits = schedule_traits(name);
    schedules.push_back({{"name", name},
                         {"stages_per_rank", stages_of_rank(traits)},
                         {"split_backward", traits.split_backward},
                         {"notes", notes_on(traits)}});
  }
  return schedules;
}

}  // namespace plumbline
