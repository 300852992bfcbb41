#include "bench/training/reinforcement/experience.hpp"

#include <algorithm>

#include "kernels/ignored_target.hpp"

namespace plumbline::reinforcement {
namespace {

void add_sequence(const RunConfig& config, const Response& response, PolicyBatch& batch) {
  const auto seq = static_cast<std::size_t>(config.batch.seq_length);
  std::vector<std::int32_t> inputs = response.prompt;
  inputs.insert(inputs.end(), response.ids.begin(), response.ids.end());
  inputs.resize(seq);
  std::vector<std::int32_t> targets(seq, kIgnoredTarget);
  std::copy(response.ids.begin(), response.ids.end(), targets.begin() + row_of(response, 0));
  batch.inputs.insert(batch.inputs.end(), inputs.begin(), inputs.end());
  batch.targets.insert(batch.targets.end(), targets.begin(), targets.end());
}

/// Weight of each of the response's ids.
double token_weight(const RunConfig& config, std::span<const Response> batch, const Response& response) {
  if (config.reinforcement.loss.aggregation == LossAggregation::sequence_mean)
    return 1 / static_cast<double>(std::ssize(batch) * std::ssize(response.ids));
  std::int64_t tokens = 0;
  for (const Response& each : batch) tokens += std::ssize(each.ids);
  return 1 / static_cast<double>(tokens);
}

}  // namespace

PolicyBatch policy_batch(const RunConfig& config, const TokenNumbers& numbers,
                         std::span<const Response> batch, int replica) {
  const std::int64_t together = config.batch.micro_batch_size;
  const std::int64_t seq = config.batch.seq_length;
  const auto rows = static_cast<std::size_t>(together * seq);
  PolicyBatch made;
  for (std::int64_t m = 0; m < config.microbatches(); ++m) {
    std::vector<float> policy((numbers.size() + 1) * rows);
    for (std::int64_t i = 0; i < together; ++i) {
      const std::int64_t index = (m * config.parallel.data() + replica) * together + i;
      const Response& response = batch[static_cast<std::size_t>(index)];
      add_sequence(config, response, made);
      const double weight = token_weight(config, batch, response);
      for (std::size_t j = 0; j < response.ids.size(); ++j) {
        const auto row = static_cast<std::size_t>(i * seq + row_of(response, static_cast<std::int64_t>(j)));
        for (std::size_t n = 0; n < numbers.size(); ++n) {
          const std::vector<float>& of = response.*numbers[n];
          policy[n * rows + row] = of.empty() ? 0 : of[j];
        }
        policy[numbers.size() * rows + row] = static_cast<float>(weight);
      }
    }
    made.policy.insert(made.policy.end(), policy.begin(), policy.end());
  }
  return made;
}

PolicyBatch scored_batch(const RunConfig& config, std::span<const Response> responses, std::int64_t first) {
  PolicyBatch made;
  for (std::int64_t i = 0; i < config.batch.micro_batch_size; ++i)
    add_sequence(config, responses[static_cast<std::size_t>(first + i)], made);
  return made;
}

}  // namespace plumbline::reinforcement
