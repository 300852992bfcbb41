// Cost of the messages between a step's stages.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/software.hpp"
#include "analysis/simulate/costs.hpp"
#include "analysis/step/stage_shape.hpp"
#include "analysis/time/tables/load.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Sets the links and hops of `costs` to those of activations between pipeline ranks; nothing with one rank.
/// `any`: a stage of the step. `load`: during the pipeline's part of the step.
void set_message_costs(const RunConfig& config, const Schedule& schedule, const Software& software,
                       const HardwareProfile& hardware, const StageShape& any, const Load& load,
                       Costs& costs);

}  // namespace plumbline
