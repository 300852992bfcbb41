// Megatron-LM's arguments as a configuration.
#pragma once

#include <string>
#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Surroundings of the arguments: GPUs that the launcher starts.
struct LauncherFacts {
  std::int64_t world_size = 0;  // 0: not said
  std::string place;
};

/// The framework whose arguments these are.
struct MegatronDialect {
  const char* framework = "Megatron-LM";
  const char* software = "megatron-core";
  /// The file sets a recipe's values anew: a model's shape, sizes and defaults may be missing.
  bool partial = false;
};

/// Every argument is used, named as without effect, or refused. Defaults are Megatron-LM's where they differ
/// from plumbline's. Throws InputError for a value that no configuration has.
LaunchFile megatron_launch(const std::vector<LaunchArgument>& arguments, const LauncherFacts& launcher,
                           const MegatronDialect& dialect = {});

}  // namespace plumbline
