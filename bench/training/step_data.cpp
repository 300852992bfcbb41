#include "bench/training/step_data.hpp"

#include <algorithm>

namespace plumbline::training {

StepData::StepData(const RunConfig& config, int data_rank)
    : config_(config),
      data_rank_(data_rank),
      source_(config.data, config.model.vocab, config.seq_length, config.seed) {}

StepTokens StepData::step(std::int64_t index) const {
  const std::int64_t seq = config_.seq_length;
  const std::int64_t per_microbatch = config_.micro_batch_size;
  const std::int64_t replicas = config_.data_parallel_size();
  StepTokens tokens;
  for (std::int64_t microbatch = 0; microbatch < config_.microbatches(); ++microbatch) {
    for (std::int64_t i = 0; i < per_microbatch; ++i) {
      const std::int64_t in_batch = (microbatch * replicas + data_rank_) * per_microbatch + i;
      const std::vector<std::int32_t> ids = source_.sample(index * config_.global_batch_size + in_batch);
      tokens.inputs.insert(tokens.inputs.end(), ids.begin(), ids.begin() + seq);
      tokens.targets.insert(tokens.targets.end(), ids.begin() + 1, ids.end());
    }
  }
  return tokens;
}

}  // namespace plumbline::training
