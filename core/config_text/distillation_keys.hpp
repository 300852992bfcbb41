// The configuration keys about a teacher.
#pragma once

#include <vector>

#include "core/config_text/config_key.hpp"

namespace plumbline {

/// In the order of the documentation.
std::vector<ConfigKey> distillation_keys();

}  // namespace plumbline
