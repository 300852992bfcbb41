#include "bench/training/trainer/step_data.hpp"
#include "kernels/ignored_target.hpp"

#include "core/config/common_vocabulary.hpp"

namespace plumbline::training {

StepData::StepData(const RunConfig& config, int data_rank)
    : config_(config),
      chunks_(config, data_rank),
      replica_(data_rank / config.parallel.context),
      source_(config.files.data, common_vocab(config), config.batch.seq_length, config.measure.seed),
      mask_(config.files.loss_mask, source_.tokens(), config.batch.seq_length) {}

StepTokens StepData::step(std::int64_t index) const {
  const std::int64_t per_microbatch = config_.batch.micro_batch_size;
  const std::int64_t replicas = config_.parallel.data();
  StepTokens tokens;
  const std::int64_t first_sample = index * config_.batch.global_batch_size;
  const auto counted = [&](std::int64_t from) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < config_.batch.global_batch_size; ++i)
      sum += mask_.counted(first_sample + i, from);
    return sum;
  };
  tokens.counted = counted(0);
  // Module k sees the targets from the k-th on.
  for (std::int64_t k = 1; k <= config_.model.prediction_modules; ++k)
    tokens.counted_ahead.push_back(counted(k));
  for (std::int64_t microbatch = 0; microbatch < config_.microbatches(); ++microbatch) {
    for (std::int64_t i = 0; i < per_microbatch; ++i) {
      const std::int64_t in_batch = (microbatch * replicas + replica_) * per_microbatch + i;
      const std::vector<std::int32_t> ids = source_.sample(first_sample + in_batch);
      for (std::int64_t j = 0; j < chunks_.tokens(); ++j) {
        const std::int64_t position = chunks_.position(j);
        const auto at = static_cast<std::size_t>(position);
        tokens.inputs.push_back(ids[at]);
        tokens.targets.push_back(mask_.counts(first_sample + in_batch, position) ? ids[at + 1]
                                                                                 : kIgnoredTarget);
      }
    }
  }
  return tokens;
}

}  // namespace plumbline::training
