// Phases of a predicted step of reinforcement learning over time: a picture, and a file for trace viewers.
#pragma once

#include <string>

#include "analysis/reinforcement/reinforcement_prediction.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// SVG: a lane for the ranks that train, one for those of the rollout alone, and device memory below.
std::string phases_svg(const RunConfig& config, const ReinforcementPrediction& prediction);

/// Chrome's trace event JSON: a thread for each lane, a counter of device memory.
std::string phases_trace(const RunConfig& config, const ReinforcementPrediction& prediction);

}  // namespace plumbline
