#include "analysis/published/published.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "analysis/cluster/memory.hpp"
#include "analysis/published/published_formulas.hpp"
#include "analysis/published/published_jobs.hpp"
#include "core/base/error.hpp"

namespace plumbline::cluster {
namespace {

void compare_run(const PublishedRun& run, const Profiles& profiles, const ScheduleMaker& make,
                 ComparedTable& table) {
  const Machine& machine = profiles.machine(run.machine);
  const Software& software = profiles.generation(run.software);
  if (run.step_s > 0) {
    const StepTimes times = step_times(machine, software, run.job, run.placement, run.schedule, make);
    table.rows.push_back({run.label, "step_s", times.step_s, run.step_s, run.sweep});
  }
  if (run.peak_bytes > 0) {
    const Costs costs = stage_costs(machine, software, run.job, run.placement);
    ScheduleNeed need = run.schedule;
    need.vocabulary = run.job.vocabulary;  // the passes decide how many micro-batches are in flight
    const Schedule schedule = make(need, costs);
    const double bytes = peak_memory(rank_memory(software, run.job, run.placement, schedule));
    table.rows.push_back({run.label, "peak_bytes", bytes, run.peak_bytes, run.sweep});
  }
}

/// Mean over sweeps of at least three rows: how much slower the model's choice ran than the best row.
void set_regret(ComparedTable& table) {
  std::map<std::string, std::vector<const ComparedRow*>> sweeps;
  for (const ComparedRow& row : table.rows) {
    if (row.quantity == "step_s" && !row.sweep.empty()) sweeps[row.sweep].push_back(&row);
  }
  double sum = 0;
  for (const auto& [name, rows] : sweeps) {
    if (rows.size() < 3) continue;
    const auto chosen = *std::min_element(
        rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->predicted < b->predicted; });
    const auto best = *std::min_element(
        rows.begin(), rows.end(), [](const auto* a, const auto* b) { return a->published < b->published; });
    sum += chosen->published / best->published - 1;
    ++table.sweeps;
  }
  if (table.sweeps > 0) table.regret = sum / table.sweeps;
}

}  // namespace

Errors errors_of(const std::vector<ComparedRow>& rows, const std::string& quantity) {
  Errors errors;
  std::vector<double> absolute;
  for (const ComparedRow& row : rows) {
    if (!quantity.empty() && row.quantity != quantity) continue;
    const double error = row.error();
    absolute.push_back(std::abs(error));
    errors.mape += std::abs(error);
    errors.bias += error;
    if (std::abs(error) > std::abs(errors.worst)) errors.worst = error;
  }
  errors.rows = static_cast<int>(absolute.size());
  if (absolute.empty()) return errors;
  errors.mape /= errors.rows;
  errors.bias /= errors.rows;
  std::sort(absolute.begin(), absolute.end());
  const double place = 0.9 * (errors.rows - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, absolute.size() - 1);
  errors.p90 = absolute[below] + (place - std::floor(place)) * (absolute[above] - absolute[below]);
  return errors;
}

ComparedTable compare_table(const PublishedTable& table, const Profiles& profiles,
                            const ScheduleMaker& make) {
  ComparedTable result;
  result.name = table.name;
  const RunReader runs = run_reader(table.name);
  const FormulaReader formulas = formula_reader(table.name);
  if (runs == nullptr && formulas == nullptr) {
    result.skipped = "no reader for this table";
    return result;
  }
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const PublishedRow cells(table, row);
    try {
      if (runs != nullptr) {
        for (const PublishedRun& run : runs(cells)) compare_run(run, profiles, make, result);
      } else {
        formulas(cells, profiles, make, result.rows);
      }
    } catch (const InputError& error) {
      result.refused.emplace_back(error.what());
    }
  }
  set_regret(result);
  return result;
}

}  // namespace plumbline::cluster
