#include "bench/commands/schedules/schedule_compare.hpp"

#include <fmt/format.h>

#include "analysis/simulate/costs_json.hpp"
#include "analysis/simulate/simulation_report.hpp"
#include "analysis/simulate/simulator.hpp"
#include "bench/show/text/csv.hpp"
#include "core/base/error.hpp"
#include "core/base/json_keys.hpp"
#include "core/base/output_json.hpp"

namespace plumbline {
namespace {

/// Times of the stages of the same model: with its given costs cut into `stages`, otherwise by `schedule`.
void share(Costs& costs, int stages, const Schedule& schedule) {
  const double part = static_cast<double>(stages) / schedule.stages_per_route();
  for (StageCosts& stage : costs.stages) {
    for (Seconds* time : {&stage.forward, &stage.backward, &stage.backward_input, &stage.backward_weight,
                          &stage.teacher_forward}) {
      *time = *time * part;
    }
  }
}

struct ComparedSchedule {
  std::string name;
  std::string refused;  // why these sizes are not for it; empty: the report is its
  SimulationReport report;
  int stages = 0;
};

/// `stages`: of a micro-batch's way through the first schedule.
ComparedSchedule compared(const ScheduleSource& source, const std::string& name,
                          const std::string* costs_text, int stages) {
  Schedule schedule = source.load_to_simulate(name, nullptr);
  Costs costs;
  if (costs_text == nullptr) {
    costs = unit_costs(schedule);
  } else {
    costs = parse_costs_json(*costs_text, "costs", schedule);
    share(costs, stages, schedule);
    schedule = source.load_to_simulate(name, &costs);
  }
  return {name, "", report_of(schedule, costs, simulate(schedule, costs)), schedule.stages};
}

std::string line_of(const ComparedSchedule& row) {
  if (!row.refused.empty()) return fmt::format("{:<16} {}\n", row.name, row.refused);
  const SimulationReport& report = row.report;
  return fmt::format("{:<16} {:>12.6g} {:>8.2f} % {:>8.2f} % {:>8.2f} % {:>8.4g} {:>8}\n", row.name,
                     report.makespan.value, 100 * report.bubble.ratio, 100 * report.bubble.fraction,
                     100 * report.free_running_bubble, report.peak_in_flight, row.stages);
}

std::string csv_of(const std::vector<ComparedSchedule>& rows, const char* unit) {
  std::string csv = fmt::format(
      "schedule,{},bubble_ratio,bubble_fraction,bubble_fraction_without_barrier,peak_in_flight,stages,"
      "reason\r\n",
      unit);
  for (const ComparedSchedule& row : rows) {
    const SimulationReport& report = row.report;
    csv += row.refused.empty()
               ? fmt::format("{},{},{},{},{},{},{},\r\n", csv_field(row.name), report.makespan.value,
                             report.bubble.ratio, report.bubble.fraction, report.free_running_bubble,
                             report.peak_in_flight, row.stages)
               : fmt::format("{},,,,,,,{}\r\n", csv_field(row.name), csv_field(row.refused));
  }
  return csv;
}

std::string json_of(const std::vector<ComparedSchedule>& rows, const char* unit) {
  OrderedJson schedules = OrderedJson::array();
  for (const ComparedSchedule& row : rows) {
    if (!row.refused.empty()) {
      schedules.push_back({{"schedule", row.name}, {"reason", row.refused}});
      continue;
    }
    const SimulationReport& report = row.report;
    schedules.push_back({{"schedule", row.name},
                         {unit, report.makespan.value},
                         {"bubble_ratio", report.bubble.ratio},
                         {"bubble_fraction", report.bubble.fraction},
                         {"bubble_fraction_without_barrier", report.free_running_bubble},
                         {"peak_in_flight", report.peak_in_flight},
                         {"stages", row.stages}});
  }
  return output_json(schedules, 2) + "\n";
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
                              const std::string* costs_text, ComparisonFormat format) {
  std::string text = fmt::format("{:<16} {:>12} {:>10} {:>10} {:>10} {:>8} {:>8}\n", "schedule",
                                 costs_text == nullptr ? "units" : "seconds", "ratio", "fraction",
                                 "no barrier", "peak", "stages");
  for (const std::string& name : names) check_schedule_name(name);
  const ScheduleSource source = sized_as_files(asked, names);
  const int stages =
      costs_text == nullptr ? 0 : source.load_to_simulate(names.front(), nullptr).stages_per_route();
  std::vector<ComparedSchedule> rows;
  for (const std::string& name : names) {
    try {
      rows.push_back(compared(source, name, costs_text, stages));
    } catch (const InputError& error) {
      if (is_schedule_file(name)) throw;
      // These sizes are not for this schedule; the others can still be compared.
      rows.push_back({name, error.what(), {}, 0});
    }
  }
  const char* const unit = costs_text == nullptr ? "units" : "makespan_s";
  if (format == ComparisonFormat::csv) return csv_of(rows, unit);
  if (format == ComparisonFormat::json) return json_of(rows, unit);
  for (const ComparedSchedule& row : rows) text += line_of(row);
  if (costs_text != nullptr) {
    text += fmt::format(
        "costs: per stage of a model with the {} stages of {}, scaled for other numbers of stages\n", stages,
        names.front());
  }
  return text +
         "ratio: bubble ratio, idle/compute; fraction: bubble fraction, idle/step; no barrier: fraction of "
         "the slowest rank when ranks run ahead into the next step; peak: micro-batches in flight per rank\n";
}

}  // namespace plumbline
