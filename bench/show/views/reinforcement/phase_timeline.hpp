// Phases of a step of reinforcement learning over time: a picture, and a file for trace viewers.
#pragma once

#include <string>
#include <vector>

#include "analysis/reinforcement/reinforcement_prediction.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct TracedStep {
  std::string name;  // predicted, measured
  std::vector<StepPhase> phases;
};

/// SVG of steps under each other: a lane for the ranks that train, one for those of the rollout alone, and
/// device memory below, with a line at `limit` if it is not 0.
std::string phases_svg(const RunConfig& config, const std::vector<TracedStep>& steps, Bytes limit);

/// Chrome's trace event JSON: a process for each step, a thread for each lane, a counter of device memory.
std::string phases_trace(const RunConfig& config, const std::vector<TracedStep>& steps);

/// Throws InputError if the file's name asks for Perfetto's protobuf, which is not written for these tasks.
void check_phases_trace(const RunConfig& config, const std::string& path);

}  // namespace plumbline
