// Recipes of NeMo Automodel, as configuration keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Reads a recipe in YAML (training of a language model, whole or with adapters, over FSDP2); nothing when
/// the text is none. Every key is used, named, or refused.
std::optional<LaunchFile> automodel_launch(std::string_view text, const std::string& name,
                                           const BesideFile& beside);

}  // namespace plumbline
