// Predictions as replies.
#pragma once

#include <string>
#include <vector>

#include "bench/ask/question.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// brief: step, throughput, peak and fit. full: all that the record of `predict --json` has about the
/// prediction, with every rank, the configuration and its trust.
enum class Detail { brief, full };

/// {"prediction", "fit", "notes"}, with Detail::full also {"config", "model", "trust"}; figures in the
/// record's names and units. Tasks grpo and ppo: also {"reinforcement"}, their step as `predict --json`
/// prints it. Throws InputError for a configuration that cannot be predicted.
OrderedJson predict_answer(const AskedConfig& asked, Detail detail);

}  // namespace plumbline
