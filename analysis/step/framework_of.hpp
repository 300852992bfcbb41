// The training software whose step is described.
#pragma once

#include <optional>
#include <string>

#include "analysis/hardware/software.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// The traits of the framework that `software` names; nullptr: plumbline's own training step. Throws
/// InputError with the known names.
const Software* framework_of(const RunConfig& config);

/// Reason why a framework's MoE model is not predicted, or empty: software without one, and sharded
/// gradients.
std::optional<std::string> why_mixture_unlisted(const RunConfig& config, const Software& framework);

}  // namespace plumbline
