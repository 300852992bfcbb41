// A configuration as YAML of Megatron-Bridge's ConfigContainer.
#pragma once

#include <string>

#include "core/config/run_config.hpp"
#include "core/launch_files/arguments/export_checks.hpp"

namespace plumbline {

/// Sections model, train, ddp and others, to be put over a recipe. Says what to_megatron_lm says, and throws
/// as it does.
std::string to_megatron_bridge(const RunConfig& config, const ExportNodes& nodes);

}  // namespace plumbline
