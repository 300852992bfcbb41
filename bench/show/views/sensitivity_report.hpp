// `predict --what-limits`: sensitivity of a configuration's step time.
#pragma once

#include <string>

#include "core/config/run_config.hpp"

namespace plumbline {

/// Elasticities of the step time to every hardware constant, and the effect of each single change of the
/// configuration, each a prediction. Throws InputError when `config.machine.hardware` is no accelerator of
/// analysis/hardware (calibrated profiles have no such constants) or the schedule is not one that `search`
/// tries.
std::string what_limits_text(const RunConfig& config);
/// The same as a JSON object: {"step_s", "peak_bytes", "hardware": [{"constant", "value", "elasticity"}],
/// "changes": [{"change", "step_s", "peak_bytes", "relative"}]}.
std::string what_limits_json(const RunConfig& config);

}  // namespace plumbline
