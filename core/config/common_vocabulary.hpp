// The token ids that two models have in common.
#pragma once

#include <cstdint>

#include "core/config/run_config.hpp"

namespace plumbline {

/// Number of token ids that both the model and the teacher (if any) have: those that data may contain and the
/// loss covers. Vocabularies may differ by padding rows.
std::int64_t common_vocab(const RunConfig& config);

}  // namespace plumbline
