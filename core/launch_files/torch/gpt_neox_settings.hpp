// Configurations of GPT-NeoX: names of Megatron's kind beside DeepSpeed's keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Reads a whole configuration in YAML (or JSON with comments); nothing when the text is none. Throws
/// InputError for a part of one, without a model.
std::optional<LaunchFile> gpt_neox_launch(std::string_view text, const std::string& name,
                                          const BesideFile& beside);

}  // namespace plumbline
