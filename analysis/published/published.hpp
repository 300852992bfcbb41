// Published measurements and their predictions, row by row.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/published/compared_row.hpp"
#include "analysis/published/dialect/published_runs.hpp"
#include "analysis/published/dialect/published_tables.hpp"
#include "analysis/published/schedule_need.hpp"

namespace plumbline {

struct Errors {
  int rows = 0;
  double mape = 0;    // mean absolute relative error
  double median = 0;  // of the absolute error
  double bias = 0;    // mean relative error
  double p90 = 0;     // of the absolute error
  double worst = 0;   // the error furthest from 0
};
Errors errors_of(const std::vector<ComparedRow>& rows, const std::string& quantity);

struct ComparedTable {
  std::string name;
  std::vector<ComparedRow> rows;
  std::vector<SkippedRow> skipped;
  /// Published time of the configuration the model would pick ÷ the best published one − 1, mean over
  /// sweeps of at least three rows.
  std::optional<double> regret;
  int sweeps = 0;
};

/// Predicts every row of the table with `profiles`. A row that cannot be read or predicted is skipped with
/// its reason; the others count.
ComparedTable compare_table(const PublishedTable& table, const Profiles& profiles,
                            const ScheduleMakers& make);

/// Errors of one quantity over the rows of all tables that share a trait.
struct ComparedGroup {
  std::string value;
  std::string quantity;
  Errors errors;
};
/// Traits that rows can be grouped by: source, hardware, software, precision, parallelism.
const std::vector<std::string>& group_keys();
/// In the order of their values. Throws InputError for a key that is none of group_keys.
std::vector<ComparedGroup> compare_groups(const std::vector<ComparedTable>& tables, const std::string& key);
/// Rows that were skipped per feature that is not modelled yet; a row counts for each of its features.
std::map<std::string, int> unmodelled_features(const std::vector<ComparedTable>& tables);

}  // namespace plumbline
