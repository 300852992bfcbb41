// Responses of a step, and batches of them for the model.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "core/config/run_config.hpp"

namespace plumbline::reinforcement {

struct Response {
  std::vector<std::int32_t> prompt, ids;
  // One number per id.
  std::vector<float> log_probabilities{};            // by the actor that drew them
  std::vector<float> reference_log_probabilities{};  // empty without a reference
  std::vector<float> advantages{};
  std::vector<float> values{}, returns{};  // with a critic: values before the ids, and their goals
  std::vector<float> scores{};             // with a reward model: its values at the ids
  double reward = 0;                       // the last score, or by the rule
  std::int64_t drawn_after = 0;            // updates of the actor, on ranks that train
};

/// Numbers of an id in the first rows of its loss's tokens; the weight is the last one. Empty ones become 0.
using TokenNumbers = std::array<std::vector<float> Response::*, 3>;
constexpr TokenNumbers kActorNumbers = {&Response::log_probabilities, &Response::reference_log_probabilities,
                                        &Response::advantages};
constexpr TokenNumbers kCriticNumbers = {&Response::values, &Response::values, &Response::returns};

/// Rows of one replica for RankStages: (M, T) inputs, targets, which are -100 but for responses' ids, and
/// (4M, T) policy tokens. Behind a sequence is padding of token 0.
struct PolicyBatch {
  std::vector<std::int32_t> inputs, targets;
  std::vector<float> policy;
};

/// Micro-batch m of replica d takes the responses (m·D + d)·b … of `batch`, as StepData does. A token's
/// weight is by `loss_agg_mode` over all of `batch`.
PolicyBatch policy_batch(const RunConfig& config, const TokenNumbers& numbers,
                         std::span<const Response> batch, int replica);

/// Rows of one micro-batch without policy tokens, from response `first` on.
PolicyBatch scored_batch(const RunConfig& config, std::span<const Response> responses, std::int64_t first);

/// Row of the response's id `i` in its sequence.
inline std::int64_t row_of(const Response& response, std::int64_t i) {
  return std::ssize(response.prompt) - 1 + i;
}

}  // namespace plumbline::reinforcement
