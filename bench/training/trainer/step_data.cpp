#include "bench/training/trainer/step_data.hpp"
#include "kernels/ignored_target.hpp"

#include <algorithm>

#include "core/config/common_vocabulary.hpp"

namespace plumbline::training {
namespace {}  // namespace

StepData::StepData(const RunConfig& config, int data_rank)
    : config_(config),
      data_rank_(data_rank),
      source_(config.files.data, common_vocab(config), config.batch.seq_length, config.measure.seed),
      mask_(config.files.loss_mask, source_.tokens(), config.batch.seq_length) {}

StepTokens StepData::step(std::int64_t index) const {
  const std::int64_t seq = config_.batch.seq_length;
  const std::int64_t per_microbatch = config_.batch.micro_batch_size;
  const std::int64_t replicas = config_.parallel.data();
  StepTokens tokens;
  const std::int64_t first_sample = index * config_.batch.global_batch_size;
  for (std::int64_t i = 0; i < config_.batch.global_batch_size; ++i)
    tokens.counted += mask_.counted(first_sample + i);
  for (std::int64_t microbatch = 0; microbatch < config_.microbatches(); ++microbatch) {
    for (std::int64_t i = 0; i < per_microbatch; ++i) {
      const std::int64_t in_batch = (microbatch * replicas + data_rank_) * per_microbatch + i;
      const std::vector<std::int32_t> ids = source_.sample(first_sample + in_batch);
      tokens.inputs.insert(tokens.inputs.end(), ids.begin(), ids.begin() + seq);
      for (std::int64_t j = 0; j < seq; ++j) {
        const std::int32_t target = ids[static_cast<std::size_t>(j) + 1];
        tokens.targets.push_back(mask_.counts(first_sample + in_batch, j) ? target : kIgnoredTarget);
      }
    }
  }
  return tokens;
}

}  // namespace plumbline::training
