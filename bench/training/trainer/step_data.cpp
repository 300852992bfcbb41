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

void StepData::add_targets(std::int64_t sample, const std::vector<std::int32_t>& ids, std::int64_t k,
                           std::vector<std::int32_t>& inputs, std::vector<std::int32_t>& targets) const {
  for (std::int64_t j = 0; j < chunks_.tokens(); ++j) {
    const std::int64_t position = chunks_.position(j) + k;
    const bool inside = position < config_.batch.seq_length;
    const auto at = static_cast<std::size_t>(position);
    inputs.push_back(inside ? ids[at] : 0);
    targets.push_back(inside && mask_.counts(sample, position) ? ids[at + 1] : kIgnoredTarget);
  }
}

StepTokens StepData::step(std::int64_t index) const {
  const std::int64_t per_microbatch = config_.batch.micro_batch_size;
  const std::int64_t replicas = config_.parallel.data();
  const std::int64_t first_sample = index * config_.batch.global_batch_size;
  StepTokens tokens;
  for (std::int64_t k = 0; k <= config_.model.prediction_modules; ++k) {
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < config_.batch.global_batch_size; ++i)
      counted += mask_.counted(first_sample + i, k);  // module k sees the targets from the k-th on
    if (k == 0) tokens.counted = counted;
    if (k > 0) tokens.ahead.counted.push_back(counted);
    std::vector<std::int32_t>& inputs = k == 0 ? tokens.inputs : tokens.ahead.inputs;
    std::vector<std::int32_t>& targets = k == 0 ? tokens.targets : tokens.ahead.targets;
    for (std::int64_t microbatch = 0; microbatch < config_.microbatches(); ++microbatch) {
      for (std::int64_t i = 0; i < per_microbatch; ++i) {
        const std::int64_t sample = first_sample + (microbatch * replicas + replica_) * per_microbatch + i;
        add_targets(sample, source_.sample(sample), k, inputs, targets);
      }
    }
  }
  return tokens;
}

}  // namespace plumbline::training
