// Runs of a published table, each as a configuration of this program with its measurements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/published/dialect/measured_values.hpp"
#include "analysis/published/dialect/published_tables.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct PublishedRun {
  int row = 0;  // of the table, from 1
  std::string label;
  std::string sweep;   // rows of one sweep train the same model with the same batch on equally many GPUs
  std::string source;  // where it was printed
  Cells cells;         // of the row, by column of the dialect, with the header's defaults
  RunConfig config;
  MeasuredValues measured;
  std::vector<std::string> unmodelled;  // features of the row that no key of a configuration stands for
  std::string choice;  // values taken for settings that the row leaves open (unstated_choices.hpp)
  std::vector<PublishedRun> others;  // the same row with other values, likeliest first
};

/// A row that was not compared, and why.
struct SkippedRow {
  int row = 0;  // from 1; 0: the table as a whole
  std::string reason;
  std::vector<std::string> unmodelled;  // the features that are not modelled yet; empty: another reason
  bool unreadable = false;              // the table would have to be corrected
};
SkippedRow not_modelled(int row, const std::vector<std::string>& features);

struct PublishedRuns {
  std::vector<PublishedRun> runs;
  std::vector<SkippedRow> skipped;
};

/// Reads every row. A row is skipped with its reason if it cannot be read, contradicts itself, or is no valid
/// configuration (why_invalid) with any value of the settings that it leaves open.
PublishedRuns read_runs(const PublishedTable& table);

}  // namespace plumbline
