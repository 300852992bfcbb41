// The iterations of a training log, beside their prediction.
#pragma once

#include <optional>
#include <string>

#include "analysis/diagnose/logs/iteration_log.hpp"
#include "core/base/json_keys.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Prediction of the logged run.
struct ExpectedLog {
  const RunConfig& config;
  std::string hardware;
  double step_s = 0;
  double peak_bytes = 0;
  std::string comparable;  // interval of comparable published runs, a line; empty: none
};

std::string log_text(const IterationSummary& log, const std::optional<ExpectedLog>& expected);
OrderedJson log_json(const IterationSummary& log, const std::optional<ExpectedLog>& expected);

/// A header and a row for `validate --tables`: the configuration's keys that differ from their defaults, and
/// the median step time.
std::string table_row_of(const IterationSummary& log, const ExpectedLog& expected);

}  // namespace plumbline
