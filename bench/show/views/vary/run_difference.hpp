// Two predicted configurations explained: keys, parts of the step, memory and operators that differ.
#pragma once

#include <string>
#include <vector>

#include "bench/plan/vary/varied_runs.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// Time of one operator in one phase of a step, mean over pipeline ranks.
struct OperatorTime {
  std::string phase;
  std::string label;
  double first = 0;   // seconds of a step
  double second = 0;  // of the other configuration's
};

/// Operators of both, the largest difference first. Messages between stages are no operators.
std::vector<OperatorTime> operator_times(const VariedRun& first, const VariedRun& second);

/// Both must be predicted.
std::string difference_text(const VariedRun& first, const std::string& first_name, const VariedRun& second,
                            const std::string& second_name);
/// {"names", "keys": {KEY: [A, B]}, "time": {"step_s": [A, B], …}, "memory": {"needed_bytes": [A, B], …},
/// "operators": [{"phase", "operator", "seconds": [A, B]}]}
OrderedJson difference_json(const VariedRun& first, const std::string& first_name, const VariedRun& second,
                            const std::string& second_name);

}  // namespace plumbline
