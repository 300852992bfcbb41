// Parts of a shape that all stages of a step share, by topic.
#pragma once

#include "analysis/hardware/software.hpp"
#include "analysis/step/stage_shape.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Everything but a stage's layers, ends and place. `recomputation.offloaded`: at most so many of its layers.
/// Throws InputError for a mixture that the software does not describe. A reference to it is kept.
StageShape common_shape(const RunConfig& config, const Software& software);

}  // namespace plumbline
