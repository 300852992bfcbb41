// The configuration keys about a teacher, and what they ask of each other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config/config_key.hpp"

namespace plumbline {

/// In the order of the documentation.
std::vector<ConfigKey> distillation_keys();

/// Why the keys about a teacher contradict the rest or each other, or empty. One line: key, found, expected.
/// Part of why_invalid.
std::optional<std::string> why_distillation_invalid(const RunConfig& config);

}  // namespace plumbline
