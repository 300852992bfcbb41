// Check that a budget has room for a rank's persistent memory, before anything is started.
#pragma once

#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Throws OutOfMemory when memory_budget is smaller than the weights, gradients, optimizer state, teacher and
/// buffers that a rank holds before its first micro-batch. A budget that only a step exceeds is no error: the
/// run shows it.
void check_budget(const RunConfig& config, const Schedule& schedule);

}  // namespace plumbline
