// Models that --hybrid-layer-pattern describes.
#pragma once

#include "core/base/json_keys.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"
#include "core/launch_files/megatron/model/megatron_shape.hpp"

namespace plumbline {

/// True where every attention layer is followed by an MLP, or every one by experts: layers of the usual kind,
/// half as many. `shape` becomes theirs.
bool becomes_usual(MegatronShape& shape);

/// The config.json of a pattern with other layers, nemotron_h's. Throws InputError for flags of layers that
/// it does not have.
Json hybrid_of(LaunchArguments& from, const MegatronShape& shape);

/// Layers of stages that bars in the pattern tell apart, and flags of mixers that a pattern does not have.
void note_hybrid(LaunchArguments& from, const MegatronShape& shape, bool usual);

}  // namespace plumbline
