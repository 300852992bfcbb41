// The token ids that two models have in common.
#pragma once

#include <cstdint>

#include "core/config/run_config.hpp"

namespace plumbline {

/// How many token ids the model has, and the teacher, where there is one: those that data may have and the loss is
/// about. Vocabularies may differ by padding rows.
std::int64_t common_vocab(const RunConfig& config);

}  // namespace plumbline
