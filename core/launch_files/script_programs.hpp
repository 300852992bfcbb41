// Commands of launch scripts whose programs are not Megatron-LM's, read by the reader of their keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/launch_files/arguments/beside_file.hpp"
#include "core/launch_files/arguments/launch_settings.hpp"
#include "core/launch_files/arguments/other_file.hpp"

namespace plumbline {

/// Reads the training command of a script: accelerate launch, axolotl train, deepspeed, swift, megatron sft
/// of ms-swift, llamafactory-cli, trl, torchtitan with its TOML, tune run, verl's SFT, run_recipe.py of
/// Megatron-Bridge. Nothing when it has none of them. Throws InputError (place, found, expected), also for
/// several.
std::optional<LaunchFile> program_launch(std::string_view text, const std::string& name,
                                         const OtherFile& other, const BesideFile& beside);

}  // namespace plumbline
