// The configuration keys of topics with a file each: distillation and reinforcement learning.
#pragma once

#include <vector>

#include "core/config_text/config_key.hpp"

namespace plumbline {

/// About a teacher, in the order of the documentation.
std::vector<ConfigKey> distillation_keys();

/// All of RunConfig::reinforcement.
std::vector<ConfigKey> reinforcement_keys();

}  // namespace plumbline
