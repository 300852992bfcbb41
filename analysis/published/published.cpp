#include "analysis/published/published.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "analysis/published/dialect/row_cells.hpp"
#include "analysis/published/predict_run.hpp"
#include "analysis/published/published_formulas.hpp"
#include "analysis/published/run_respects.hpp"
#include "core/base/error.hpp"
#include "core/base/text_input.hpp"

namespace plumbline {
namespace {

std::string precision_of(const RunConfig& config) {
  if (config.numerics.fp8.on()) return "fp8";
  return config.numerics.precision == DType::fp32   ? "fp32"
         : config.numerics.precision == DType::fp16 ? "fp16"
                                                    : "bf16";
}

RunTraits traits_of(const PublishedRun& run, const PredictedRun& predicted) {
  const ParallelConfig& parallel = run.config.parallel;
  std::string more_than_one;
  const auto add = [&](const char* name, bool in_use) {
    if (in_use) more_than_one += (more_than_one.empty() ? "" : " ") + std::string(name);
  };
  add("tp", parallel.tensor > 1);
  add("pp", parallel.pipeline > 1);
  add("cp", parallel.context > 1);
  add("ep", parallel.expert > 1);
  add("dp", parallel.data() > 1);
  return {run.source,
          run.config.machine.hardware,
          run.config.machine.software,
          precision_of(run.config),
          more_than_one.empty() ? "one rank" : more_than_one,
          parallel.tensor,
          predicted.kind,
          predicted.fit,
          run.cells};
}

void compare_run(const PublishedRun& run, const Profiles& profiles, const ScheduleMakers& make,
                 ComparedTable& table) {
  const PredictedRun predicted = predict_run(run, profiles, make);
  if (!predicted.unmodelled.empty()) {
    table.skipped.push_back(not_modelled(run.row, predicted.unmodelled));
    return;
  }
  const auto add = [&](const char* quantity, double ours, double theirs, const Spread& spread) {
    if (theirs > 0)
      table.rows.push_back({run.label, quantity, ours, theirs, run.sweep, traits_of(run, predicted), spread,
                            predicted.choice});
  };
  add("step_s", predicted.step_s, run.measured.step_s, predicted.step_spread);
  add("peak_bytes", predicted.peak_bytes, run.measured.peak_bytes, predicted.peak_spread);
}

void compare_formulas(const PublishedTable& table, FormulaReader formulas, const Profiles& profiles,
                      const ScheduleMakers& make, ComparedTable& result) {
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    try {
      formulas(PublishedRow(table, row), profiles, make, result.rows);
    } catch (const InputError& error) {
      result.skipped.push_back({static_cast<int>(row) + 1, error.what(), {}, true});
    }
  }
}

/// Mean over sweeps of at least three rows: slowdown of the model's choice relative to the best row. A row
/// without a sweep belongs to the rows of its source that are other layouts of the same training.
void set_regret(ComparedTable& table) {
  std::map<std::string, std::vector<const ComparedRow*>> sweeps;
  for (const ComparedRow& row : table.rows) {
    if (row.quantity != "step_s" || row.traits.settings.empty()) continue;
    sweeps[row.sweep.empty() ? row.traits.source + '\n' + same_training(row.traits.settings) : row.sweep]
        .push_back(&row);
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
  const auto quantile = [&](double share) {
    const double place = share * (errors.rows - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, absolute.size() - 1);
    return absolute[below] + (place - std::floor(place)) * (absolute[above] - absolute[below]);
  };
  errors.median = quantile(0.5);
  errors.p90 = quantile(0.9);
  return errors;
}

ComparedTable compare_table(const PublishedTable& table, const Profiles& profiles,
                            const ScheduleMakers& make) {
  ComparedTable result;
  result.name = table.name;
  if (const FormulaReader formulas = formula_reader(table)) {
    compare_formulas(table, formulas, profiles, make, result);
    return result;
  }
  if (!holds_runs(table)) {
    result.skipped.push_back(
        {0,
         fmt::format("{}.csv: no reader for this table: none of its columns is a measured value (step_s, "
                     "...), and no {}.yaml says which one is; expected one of these columns",
                     table.name, table.name),
         {},
         true});
    return result;
  }
  PublishedRuns read = read_runs(table);
  result.skipped = std::move(read.skipped);
  for (const PublishedRun& run : read.runs) {
    try {
      compare_run(run, profiles, make, result);
    } catch (const InputError& error) {
      result.skipped.push_back(
          {run.row, fmt::format("{}.csv: row {}: {}", table.name, run.row, error.what()), {}, true});
    }
  }
  std::stable_sort(result.skipped.begin(), result.skipped.end(),
                   [](const SkippedRow& a, const SkippedRow& b) { return a.row < b.row; });
  set_regret(result);
  return result;
}

namespace {

const std::string& trait(const RunTraits& traits, const std::string& key) {
  if (key == "hardware") return traits.hardware;
  if (key == "software") return traits.software;
  if (key == "precision") return traits.precision;
  return key == "parallelism" ? traits.parallelism : traits.source;
}

}  // namespace

const std::vector<std::string>& group_keys() {
  static const std::vector<std::string> kKeys = {"source", "hardware", "software", "precision",
                                                 "parallelism"};
  return kKeys;
}

std::vector<ComparedGroup> compare_groups(const std::vector<ComparedTable>& tables, const std::string& key) {
  if (std::find(group_keys().begin(), group_keys().end(), key) == group_keys().end()) {
    throw InputError(fmt::format("--group-by: found \"{}\", expected one of {}", printable(key),
                                 fmt::join(group_keys(), ", ")));
  }
  std::map<std::pair<std::string, std::string>, std::vector<ComparedRow>> groups;
  for (const ComparedTable& table : tables) {
    for (const ComparedRow& row : table.rows) {
      if (!row.traits.hardware.empty()) groups[{trait(row.traits, key), row.quantity}].push_back(row);
    }
  }
  std::vector<ComparedGroup> result;
  result.reserve(groups.size());
  for (const auto& [name, rows] : groups) {
    result.push_back({name.first, name.second, errors_of(rows, name.second)});
  }
  return result;
}

std::map<std::string, int> unmodelled_features(const std::vector<ComparedTable>& tables) {
  std::map<std::string, int> counts;
  for (const ComparedTable& table : tables) {
    for (const SkippedRow& row : table.skipped) {
      for (const std::string& feature : row.unmodelled) ++counts[feature];
    }
  }
  return counts;
}

}  // namespace plumbline
