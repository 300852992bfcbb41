// Megatron-LM's arguments as a configuration.
#pragma once

#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"
#include "core/launch_files/megatron/model/megatron_dialect.hpp"

namespace plumbline {

/// Every argument is used, named as without effect, or refused. Defaults are Megatron-LM's where they differ
/// from plumbline's. Throws InputError for a value that no configuration has.
LaunchFile megatron_launch(const std::vector<LaunchArgument>& arguments, const LauncherFacts& launcher,
                           const MegatronDialect& dialect = {}, const BesideFile& beside = {});

}  // namespace plumbline
