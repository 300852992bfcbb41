// A short step that shows a backend every operator of a long one.
#pragma once

#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

struct PlannedStep {
  RunConfig config;
  Schedule schedule;
};

/// `config` with the fewest micro-batches, two at least (the second adds to gradients), with which each rank
/// has all kinds of actions and pairs that it has in `whole`, for the same stages; the step itself if there
/// is no shorter one. At most five schedules are made.
PlannedStep rehearsed_step(const RunConfig& config, const Schedule& whole);

}  // namespace plumbline
