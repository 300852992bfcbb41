// What a configuration with a teacher must fulfil.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/config/run_config.hpp"

namespace plumbline {

/// Why the keys about a teacher contradict the rest or each other, or empty. One line: key, found, expected.
/// Part of why_invalid.
std::optional<std::string> why_distillation_invalid(const RunConfig& config);

/// Why the heads or feed-forward columns of a model do not divide among `tensor` ranks, or empty.
std::optional<std::string> why_tensor_split_invalid(const ModelConfig& model, std::int64_t tensor);

}  // namespace plumbline
