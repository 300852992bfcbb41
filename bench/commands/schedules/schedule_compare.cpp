#include "bench/commands/schedules/schedule_compare.hpp"

#include <fmt/format.h>

#include "analysis/simulate/costs_json.hpp"
#include "analysis/simulate/simulation_report.hpp"
#include "analysis/simulate/simulator.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Times of the stages of the same model, cut into `stages` when its costs were given and otherwise by `schedule`.
void share(Costs& costs, int stages, const Schedule& schedule) {
  const double part = static_cast<double>(stages) / schedule.stages_per_route();
  for (StageCosts& stage : costs.stages) {
    for (Seconds* time : {&stage.forward, &stage.backward, &stage.backward_input, &stage.backward_weight,
                          &stage.teacher_forward}) {
      *time = *time * part;
    }
  }
}

/// `stages`: of a micro-batch's way through the first schedule.
std::string line(const ScheduleSource& source, const std::string& name, const std::string* costs_text,
                 int stages) {
  Schedule schedule = source.load_to_simulate(name, nullptr);
  Costs costs;
  if (costs_text == nullptr) {
    costs = unit_costs(schedule);
  } else {
    costs = parse_costs_json(*costs_text, "costs", schedule);
    share(costs, stages, schedule);
    schedule = source.load_to_simulate(name, &costs);
  }
  const SimulationReport report = report_of(schedule, costs, simulate(schedule, costs));
  return fmt::format("{:<16} {:>12.6g} {:>8.2f} % {:>8.2f} % {:>8.2f} % {:>8.4g} {:>8}\n", name,
                     report.makespan.value, 100 * report.bubble.ratio, 100 * report.bubble.fraction,
                     100 * report.free_running_bubble, report.peak_in_flight, schedule.stages);
}

/// Ranks and micro-batches are those of the files among `names`.
ScheduleSource sized_as_files(ScheduleSource source, const std::vector<std::string>& names) {
  const std::string* first = nullptr;
  for (const std::string& name : names) {
    if (!is_schedule_file(name)) continue;
    const Schedule schedule = source.load(name, nullptr);
    const auto agree = [&](int& size, int found, const char* option, const char* what) {
      if (first == nullptr && size == 1) size = found;
      if (size != found) {
        throw InputError(fmt::format("{}: found {} {}, expected {} as {}; compare schedules of equal sizes",
                                     name, found, what, size, first == nullptr ? option : *first));
      }
    };
    agree(source.pp, schedule.ranks, "--pp", "ranks");
    agree(source.microbatches, schedule.microbatches, "--microbatches", "micro-batches");
    first = &name;
  }
  return source;
}

}  // namespace

std::string compare_schedules(const ScheduleSource& asked, const std::vector<std::string>& names,
                              const std::string* costs_text) {
  std::string text = fmt::format("{:<16} {:>12} {:>10} {:>10} {:>10} {:>8} {:>8}\n", "schedule",
                                 costs_text == nullptr ? "units" : "seconds", "ratio", "fraction",
                                 "no barrier", "peak", "stages");
  for (const std::string& name : names) check_schedule_name(name);
  const ScheduleSource source = sized_as_files(asked, names);
  const int stages =
      costs_text == nullptr ? 0 : source.load_to_simulate(names.front(), nullptr).stages_per_route();
  for (const std::string& name : names) {
    try {
      text += line(source, name, costs_text, stages);
    } catch (const InputError& error) {
      if (is_schedule_file(name)) throw;
      // These sizes are not for this schedule; the others can still be compared.
      text += fmt::format("{:<16} {}\n", name, error.what());
    }
  }
  if (costs_text != nullptr) {
    text += fmt::format(
        "costs: of a stage when the model has the {} stages of {}, in proportion for other numbers of "
        "stages\n",
        stages, names.front());
  }
  return text +
         "ratio: idle / compute; fraction: idle / step; no barrier: idle / step of the longest rank when "
         "ranks run "
         "ahead into the next step; peak: activations of a rank, in micro-batches\n";
}

}  // namespace plumbline
