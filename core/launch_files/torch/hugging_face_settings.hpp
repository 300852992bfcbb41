// TrainingArguments of Hugging Face (also LLaMA-Factory's files) and Accelerate's configurations.
#pragma once

#include <string>
#include <vector>

#include "core/launch_files/arguments/launch_settings.hpp"
#include "core/launch_files/arguments/other_file.hpp"

namespace plumbline {

/// Every key is used, named as without effect, or refused; a DeepSpeed configuration that the file names is
/// read with `other`. Throws InputError (place, key, found, expected) for a value that no configuration has.
LaunchFile trainer_launch(std::vector<LaunchArgument> arguments, const OtherFile& other,
                          const BesideFile& beside = {},
                          const std::string& framework = "Hugging Face's Trainer");

/// The same for a configuration of Accelerate.
LaunchFile accelerate_launch(const std::vector<LaunchArgument>& arguments, const OtherFile& other,
                             const BesideFile& beside = {});

}  // namespace plumbline
