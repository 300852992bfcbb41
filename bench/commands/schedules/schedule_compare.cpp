#include "bench/commands/schedules/schedule_compare.hpp"

#include <fmt/format.h>

#include "analysis/simulate/costs_json.hpp"
#include "analysis/simulate/simulation_report.hpp"
#include "analysis/simulate/simulator.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

/// Times of a rank divided among its stages.
void share(Costs& costs, const Schedule& schedule) {
  const double part = static_cast<double>(schedule.ranks) / schedule.stages_per_route();
  for (StageCosts& stage : costs.stages) {
    for (Seconds* time : {&stage.forward, &stage.backward, &stage.backward_input, &stage.backward_weight,
                          &stage.teacher_forward}) {
      *time = *time * part;
    }
  }
}

std::string line(const ScheduleSource& source, const std::string& name, const std::string* costs_text) {
  Schedule schedule = source.load(name, nullptr);
  Costs costs;
  if (costs_text == nullptr) {
    costs = unit_costs(schedule);
  } else {
    costs = parse_costs_json(*costs_text, "costs", schedule);
    schedule = source.load(name, &costs);
    share(costs, schedule);
  }
  const SimulationReport report = report_of(schedule, costs, simulate(schedule, costs));
  return fmt::format("{:<16} {:>12.6g} {:>8.2f} % {:>8.2f} % {:>8.2f} % {:>8.4g} {:>8}\n", name,
                     report.makespan.value, 100 * report.bubble.ratio, 100 * report.bubble.fraction,
                     100 * report.free_running_bubble, report.peak_in_flight, schedule.stages);
}

}  // namespace

std::string compare_schedules(const ScheduleSource& source, const std::vector<std::string>& names,
                              const std::string* costs_text) {
  std::string text = fmt::format("{:<16} {:>12} {:>10} {:>10} {:>10} {:>8} {:>8}\n", "schedule",
                                 costs_text == nullptr ? "units" : "seconds", "ratio", "fraction",
                                 "no barrier", "peak", "stages");
  for (const std::string& name : names) check_schedule_name(name);
  for (const std::string& name : names) {
    try {
      text += line(source, name, costs_text);
    } catch (const InputError& error) {
      if (is_schedule_file(name)) throw;
      // These sizes are not for this schedule; the others can still be compared.
      text += fmt::format("{:<16} {}\n", name, error.what());
    }
  }
  return text +
         "ratio: idle / compute; fraction: idle / step; no barrier: idle / step of the longest rank when "
         "ranks run "
         "ahead into the next step; peak: activations of a rank, in micro-batches\n";
}

}  // namespace plumbline
