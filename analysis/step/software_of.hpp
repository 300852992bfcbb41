// The training software whose step is described.
#pragma once

#include <optional>
#include <string>

#include "analysis/hardware/software.hpp"
#include "analysis/step/stage_topics.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// The traits of what `software` names. Throws InputError with the known names.
const Software& software_of(const RunConfig& config);

/// Behaviour of a step that is described.
StepTraits traits_of(const Software& software);

/// Reason why a software's MoE or hybrid model is not predicted, or empty: software without one, and, of MoE
/// models, sharded gradients.
std::optional<std::string> why_model_unlisted(const RunConfig& config, const Software& software);

}  // namespace plumbline
