// From a row of a published table to the job that was measured: one reader per table.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/cluster/step.hpp"
#include "analysis/published/published_row.hpp"

namespace plumbline::cluster {

/// One measured run and what was printed about it.
struct PublishedRun {
  std::string label;
  std::string machine;  // names of the profiles
  std::string software;
  Job job;
  Placement placement;
  ScheduleNeed schedule;
  double step_s = 0;      // printed, or derived from the printed throughput; 0: not printed
  double peak_bytes = 0;  // printed; 0: not printed
  std::string sweep;
};

using RunReader = std::vector<PublishedRun> (*)(const PublishedRow&);
/// nullptr for a table that holds no training runs.
RunReader run_reader(std::string_view table);

/// GPT as Megatron-LM builds it.
Model gpt_model(double layers, double hidden, double heads, double vocab, double positions, bool tied);

}  // namespace plumbline::cluster
