// Runs with fp16 whose loss scale is too large for every step.
#pragma once

#include <optional>
#include <string>

#include "core/config/run_config.hpp"

namespace plumbline {

/// True if gradients overflow fp16 in all of a run's steps (warmup_steps and steps), whatever the numbers:
/// those of logits have scale / tokens times 1 - p at targets, which a model gives a probability p of at most
/// a half for some token. Such a run makes no update. False for steps that compute no values here: of other
/// software, of other hardware, or of backend emulated.
bool overflows_in_every_step(const RunConfig& config);

/// A line for the user about such a run, or nothing.
std::optional<std::string> overflow_note(const RunConfig& config);

}  // namespace plumbline
