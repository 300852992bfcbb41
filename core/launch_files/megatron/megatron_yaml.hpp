// YAML files with Megatron-LM's names: its --yaml-cfg, recipes with ARGS, Megatron-Bridge's ConfigContainer.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"

namespace plumbline {

/// Nothing if `text` is no such file. A file of Megatron-Bridge without a model's shape leaves the model to
/// the command line. Throws InputError (place, key, found, expected).
std::optional<LaunchFile> megatron_yaml_launch(std::string_view text, const std::string& name,
                                               const BesideFile& beside = {});

/// The same for keys as other files and commands give them: of a ConfigContainer of Megatron-Bridge
/// ("train.global_batch_size"), or of Megatron-LM ("num_layers") beside a model that is named elsewhere.
LaunchFile megatron_keys_launch(std::vector<LaunchArgument> keys, bool bridge, const BesideFile& beside);

/// Adds defaults of another framework, by name and value, for names that are not given. `place`: whose.
void add_defaults(std::vector<LaunchArgument>& keys,
                  std::span<const std::pair<const char*, const char*>> defaults, const std::string& place);

}  // namespace plumbline
