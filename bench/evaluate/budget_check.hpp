// Whether a budget has room for what a rank holds for the whole run, before anything is started.
#pragma once

#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Throws OutOfMemory when memory_budget is smaller than the weights, gradients, optimizer state, teacher and
/// buffers that a rank holds before its first micro-batch. A budget that only a step exceeds is no error:
/// that is what a run shows.
void check_budget(const RunConfig& config, const Schedule& schedule);

}  // namespace plumbline
