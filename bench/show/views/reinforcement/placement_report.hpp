// The result of a search over placements, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "analysis/reinforcement/placement_search.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct PlacementAnswer {
  RunConfig config;
  int gpus = 0;
  double seconds = 0;  // that the search took
  PlacementResult result;
  std::vector<std::string> commands;  // `plumbline predict` of each of the best
};

/// A line for each of the best, then their commands.
std::string placements_text(const PlacementAnswer& answer);

/// {"gpus", "seconds", "complete", "predicted", "fitting", "best": [{"config": {key: value}, "command",
/// "step_s", "tokens_per_s_per_gpu", "needed_bytes", "limit_bytes", "staleness", "phases": {name: seconds}}],
/// "best_of_placement": likewise, without commands}.
std::string placements_json(const PlacementAnswer& answer);

}  // namespace plumbline
