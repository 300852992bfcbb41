// Models that launch files name.
#pragma once

#include <string_view>

#include "core/config/model_config.hpp"
#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// The preset that a path or a name of other spelling means: "llama3.1_70B.yaml", "Qwen/Qwen3-8B". nullptr:
/// none.
const ModelConfig* preset_of_name(std::string_view name);

/// Sets the model that an argument names, or the reason why there is none.
void set_named_model(LaunchFile& file, const LaunchArgument& model);

}  // namespace plumbline
