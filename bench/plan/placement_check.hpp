// Placements of stages that the training step can have.
#pragma once

#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// The last stage has the embedding too: if that is another rank gradients are summed.
bool copies_embedding(const RunConfig& config);

/// Requirements of the training step on a placement beyond a valid schedule. Built-in schedules fulfil them,
/// except for the number of stages. Throws InputError.
void check_placement(const RunConfig& config, const Schedule& schedule);

}  // namespace plumbline
