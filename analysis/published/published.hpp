// Published measurements and what the model predicts for them, row by row.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/cluster/step.hpp"
#include "analysis/hardware/profiles.hpp"

namespace plumbline::cluster {

/// A table as read: cells as text, by column name. Empty cells stay empty.
struct PublishedTable {
  std::string name;  // file name without .csv
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

/// Parses a table as if hostile: sizes, widths and characters are checked. Throws InputError naming the file
/// and line.
PublishedTable parse_published(const std::string& text, const std::string& name, const std::string& origin);
/// The tables that are part of the program.
std::vector<PublishedTable> built_in_tables();
/// Every *.csv of a folder, in the order of their names. Throws InputError when the folder cannot be read.
std::vector<PublishedTable> read_tables(const std::string& folder);

struct ComparedRow {
  std::string label;
  std::string quantity;  // step_s, peak_bytes, layer_s, ...
  double predicted = 0;
  double published = 0;
  std::string sweep;  // rows of one sweep train the same model with the same batch on as many GPUs
  double error() const { return predicted / published - 1; }
};

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
