// Configurations of NeMo-RL: YAML files of GRPO, read as a step of reinforcement learning.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/launch_files/arguments/beside_file.hpp"
#include "core/launch_files/arguments/launch_settings.hpp"
#include "core/launch_files/arguments/other_file.hpp"

namespace plumbline {

/// A file with `policy` and `grpo`, or derived from one (NVIDIA-NeMo/RL@7ea279a examples/configs); nothing
/// for any other. Its `defaults`, a path from its folder, come first. References ${a.b} and ${mul:x, y} are
/// filled in. Throws InputError (place, key, found, expected).
std::optional<LaunchFile> nemo_rl_launch(std::string_view text, const std::string& name,
                                         const OtherFile& other, const BesideFile& beside);

}  // namespace plumbline
