// A configuration as a job configuration of torchtitan.
#pragma once

#include <string>

#include "core/config/run_config.hpp"
#include "core/launch_files/arguments/export_checks.hpp"

namespace plumbline {

/// A TOML file; its first line is the command that starts it. Reading it gives the configuration's model,
/// sizes, precision and recomputation again; torchtitan's sharding, overlap and kernels are the software's.
/// Throws InputError (key, found, expected) for what its keys do not say.
std::string to_torchtitan(const RunConfig& config, const ExportNodes& nodes);

}  // namespace plumbline
