// A mixture of experts by Megatron-LM's arguments.
#pragma once

#include "core/launch_files/megatron/model/megatron_shape.hpp"

namespace plumbline {

/// True for gpt-oss: experts with a clamped gate, sinks and windows in every other layer. Lists these
/// arguments as not modelled in other layers.
bool is_gpt_oss(const LaunchArguments& from, const MegatronShape& shape, bool experts);
Json gpt_oss(const LaunchArguments& from, const MegatronShape& shape);

/// The config.json of the nearest family. Throws InputError for layers that none has.
Json mixture_of(const LaunchArguments& from, const MegatronShape& shape);

}  // namespace plumbline
