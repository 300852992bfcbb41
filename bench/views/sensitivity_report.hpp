// `predict --what-limits`: what the step time of a configuration depends on.
#pragma once

#include <string>

#include "core/config/run_config.hpp"

namespace plumbline {

/// Elasticities of the step time to every hardware constant, and the effect of each single change of the
/// configuration, from the cluster model of `config.machine.hardware`. Throws InputError when that is no known
/// cluster (calibrated profiles have no such constants) or the schedule is not one that `search` knows.
std::string what_limits_text(const RunConfig& config);
/// The same as a JSON object: {"step_s", "peak_bytes", "hardware": [{"constant", "value", "elasticity"}],
/// "changes": [{"change", "step_s", "peak_bytes", "relative"}]}.
std::string what_limits_json(const RunConfig& config);

}  // namespace plumbline
