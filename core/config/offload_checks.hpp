// What activations on the host do not go together with.
#pragma once

#include <optional>
#include <string>

#include "core/config/run_config.hpp"

namespace plumbline {

/// Of the configuration itself: one line, or nothing. Part of why_invalid.
std::optional<std::string> why_offload_does_not_fit(const RunConfig& config);

}  // namespace plumbline
