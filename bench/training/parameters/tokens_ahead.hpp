// Inputs and targets of MTP modules.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/run_config.hpp"
#include "kernels/ignored_target.hpp"

namespace plumbline::training {

/// (modules, tokens) ids each, module after module.
struct TokensAhead {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
};

/// For `tokens` inputs and targets of whole sequences: module k has those k ahead in the same sequence.
/// Beyond its end there are token 0 and no target (Megatron-LM's roll_tensor).
inline TokensAhead tokens_ahead(const RunConfig& config, const std::int32_t* inputs,
                                const std::int32_t* targets, std::int64_t tokens) {
  TokensAhead ahead;
  for (std::int64_t k = 1; k <= config.model.prediction_modules; ++k) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      const bool inside = i % config.batch.seq_length + k < config.batch.seq_length;
      ahead.inputs.push_back(inside ? inputs[i + k] : 0);
      ahead.targets.push_back(inside ? targets[i + k] : kIgnoredTarget);
    }
  }
  return ahead;
}

}  // namespace plumbline::training
