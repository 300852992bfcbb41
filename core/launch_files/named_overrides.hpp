// Files that name a model and give Megatron-LM's or torchtitan's keys for it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/launch_files/arguments/beside_file.hpp"
#include "core/launch_files/arguments/launch_settings.hpp"
#include "core/launch_files/arguments/named_model.hpp"

namespace plumbline {

/// A file of Primus, whose overrides are Megatron-LM's or torchtitan's; nothing for any other. Throws
/// InputError (place, key, found, expected).
std::optional<LaunchFile> primus_launch(std::string_view text, const std::string& name,
                                        const BesideFile& beside);

/// A flat file with `model` and keys of Megatron-LM; nothing when fewer than three of its keys are known only
/// there. Keys of a configuration (beside.is_key) are taken as they stand.
std::optional<LaunchFile> overrides_launch(std::string_view text, const std::string& name,
                                           const BesideFile& beside);

}  // namespace plumbline
