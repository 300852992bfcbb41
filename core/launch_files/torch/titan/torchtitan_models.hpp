// The model registry of torchtitan.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/config/model_config.hpp"
#include "core/launch_files/arguments/launch_arguments.hpp"

namespace plumbline {

/// The model of model.name and model.flavor: a preset, or its config.json. Throws InputError (place, key,
/// found, expected) for one that is not known.
std::string torchtitan_model(LaunchArguments& arguments);

/// model.name and model.flavor of a model; nothing when the registry has none of its shape.
std::optional<std::pair<std::string, std::string>> torchtitan_flavor(const ModelConfig& model);

}  // namespace plumbline
