// The fastest placements and layouts of a step of reinforcement learning on N accelerators.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/reinforcement/reinforcement_prediction.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/repeated_schedule.hpp"

namespace plumbline {

struct PlacementRequest {
  int gpus = 0;                   // of training and rollout together
  std::set<std::string> fixed{};  // names of keys that keep the configuration's values
  int top = 10;
  std::function<bool()> stopped{};                // asked between predictions; true ends the search
  std::function<void(int done, int all)> done{};  // training layouts
};

/// A configuration that fits, with its prediction.
struct PlacedStep {
  RunConfig config;
  ReinforcementPrediction prediction;
};

struct PlacementResult {
  std::vector<PlacedStep> best;          // by step time, then by memory
  std::vector<PlacedStep> of_placement;  // the best of each, likewise
  std::int64_t predicted = 0;            // with every share of memory
  std::int64_t fitting = 0;
  std::string refused;  // reason of one that is invalid, if none is predicted
  bool complete = true;
};

/// Varies placement, ranks of either side, tensor, pipeline and expert sizes of training, micro-batch and
/// recomputation (none, full), tensor size of the rollout, each but for `fixed`; an engine's share of memory
/// is the fastest for each. A training layout and a rollout are predicted once, for all that pair them.
/// Throws what predictions throw but for InputError.
PlacementResult search_placements(const RunConfig& config, const PlacementRequest& request,
                                  const HardwareProfile& hardware,
                                  const std::function<RepeatedSchedule(const RunConfig&)>& make);

}  // namespace plumbline
