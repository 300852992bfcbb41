// A configuration as TrainingArguments with DeepSpeed.
#pragma once

#include <string>

#include "core/config/run_config.hpp"
#include "core/launch_files/arguments/export_checks.hpp"

namespace plumbline {

/// YAML of TrainingArguments with a DeepSpeed configuration in it; the first line starts it. Throws
/// InputError (key, found, expected) for what these keys do not say.
std::string to_deepspeed(const RunConfig& config, const ExportNodes& nodes);

}  // namespace plumbline
