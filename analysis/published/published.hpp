// Published measurements and what the model predicts for them, row by row.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/cluster/step.hpp"
#include "analysis/hardware/profiles.hpp"
#include "analysis/published/compared_row.hpp"
#include "analysis/published/published_tables.hpp"

namespace plumbline::cluster {

struct Errors {
  int rows = 0;
  double mape = 0;   // mean absolute relative error
  double bias = 0;   // mean relative error
  double p90 = 0;    // of the absolute error
  double worst = 0;  // the error furthest from 0
};
Errors errors_of(const std::vector<ComparedRow>& rows, const std::string& quantity);

struct ComparedTable {
  std::string name;
  std::string skipped;  // why there are no rows
  std::vector<ComparedRow> rows;
  std::vector<std::string> refused;  // rows that could not be read: one line each
  /// Published time of the configuration the model would pick ÷ the best published one − 1, mean over sweeps
  /// of at least three rows.
  std::optional<double> regret;
  int sweeps = 0;
};

/// Predicts every row of the table with `profiles`. A row that cannot be read is refused; the others count.
ComparedTable compare_table(const PublishedTable& table, const Profiles& profiles, const ScheduleMaker& make);

}  // namespace plumbline::cluster
