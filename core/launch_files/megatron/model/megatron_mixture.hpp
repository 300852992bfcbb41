// A mixture of experts by Megatron-LM's arguments.
#pragma once

#include "core/launch_files/megatron/model/megatron_shape.hpp"

namespace plumbline {

/// True for experts with a clamped gate, sinks and windows in every other layer.
bool is_gpt_oss(const LaunchArguments& from, const MegatronShape& shape, bool experts);
/// Lists the arguments that only gpt-oss's layers have among those that are not modelled.
void refuse_parts_of_gpt_oss(const LaunchArguments& from);
Json gpt_oss(const LaunchArguments& from, const MegatronShape& shape);

/// The config.json of the nearest family. Throws InputError for layers that none has.
Json mixture_of(const LaunchArguments& from, const MegatronShape& shape);

}  // namespace plumbline
