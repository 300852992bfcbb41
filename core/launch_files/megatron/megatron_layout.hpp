// Layers of each pipeline stage as Megatron-LM's arguments give them.
#pragma once

#include <string>

#include "core/launch_files/arguments/launch_arguments.hpp"

namespace plumbline {

/// Sets layer_distribution, virtual_pipeline_chunks and pipeline_schedule. Throws InputError (place, flag,
/// found, expected) for a layout that is none, or whose ends are not at the ends of the pipeline.
void set_megatron_layout(LaunchArguments& arguments);

}  // namespace plumbline
