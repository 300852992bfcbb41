#include "bench/training/trainer/step_data.hpp"

#include "core/config/common_vocabulary.hpp"
#include "kernels/ignored_target.hpp"

namespace plumbline::training {

StepData::StepData(const RunConfig& config, int data_rank)
    : config_(config), chunks_(config, data_rank), replica_(data_rank / config.parallel.context) {
  if (config.fine_tunes()) {
    chats_.emplace(config);
    return;
  }
  source_.emplace(config.files.data, common_vocab(config), config.batch.seq_length, config.measure.seed);
  mask_.emplace(config.files.loss_mask, source_->tokens(), config.batch.seq_length);
}

void StepData::add_targets(std::int64_t sample, std::int64_t k, std::vector<std::int32_t>& inputs,
                           std::vector<std::int32_t>& targets) const {
  if (config_.batch.dynamic_context_parallel) {
    const ChatSamples::Rows rows = chats_->rows(sample, chunks_);
    inputs.insert(inputs.end(), rows.inputs.begin(), rows.inputs.end());
    targets.insert(targets.end(), rows.targets.begin(), rows.targets.end());
    return;
  }
  const std::vector<std::int32_t> ids = chats_ ? chats_->ids(sample) : source_->sample(sample);
  const std::vector<std::uint8_t> answered = chats_ ? chats_->counts(sample) : std::vector<std::uint8_t>();
  for (std::int64_t j = 0; j < chunks_.tokens(); ++j) {
    const std::int64_t position = chunks_.position(j) + k;
    const bool inside = position < config_.batch.seq_length;
    const auto at = static_cast<std::size_t>(position);
    const bool counts = inside && (chats_ ? answered[at] != 0 : mask_->counts(sample, position));
    inputs.push_back(inside ? ids[at] : 0);
    targets.push_back(counts ? ids[at + 1] : kIgnoredTarget);
  }
}

std::int64_t StepData::sample_of(std::int64_t step, std::int64_t microbatch, std::int64_t i) const {
  const std::int64_t replica = microbatch * config_.parallel.data() + replica_;
  return step * config_.batch.global_batch_size + replica * config_.batch.micro_batch_size + i;
}

std::int64_t StepData::counted(std::int64_t sample, std::int64_t k) const {
  return chats_ ? chats_->counted(sample, k) : mask_->counted(sample, k);
}

StepTokens StepData::step(std::int64_t index) const {
  const std::int64_t first_sample = index * config_.batch.global_batch_size;
  StepTokens tokens;
  tokens.conversations = conversations(index);
  for (std::int64_t k = 0; k <= config_.model.prediction_modules; ++k) {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < config_.batch.global_batch_size; ++i)
      count += counted(first_sample + i, k);  // module k sees the targets from the k-th on
    if (k == 0) tokens.counted = count;
    if (k > 0) tokens.ahead.counted.push_back(count);
    std::vector<std::int32_t>& inputs = k == 0 ? tokens.inputs : tokens.ahead.inputs;
    std::vector<std::int32_t>& targets = k == 0 ? tokens.targets : tokens.ahead.targets;
    for (std::int64_t microbatch = 0; microbatch < config_.microbatches(); ++microbatch) {
      for (std::int64_t i = 0; i < config_.batch.micro_batch_size; ++i)
        add_targets(sample_of(index, microbatch, i), k, inputs, targets);
    }
  }
  return tokens;
}

std::vector<Conversations> StepData::conversations(std::int64_t step) const {
  std::vector<Conversations> all;
  if (!config_.batch.packed_sequence) return all;
  for (std::int64_t microbatch = 0; microbatch < config_.microbatches(); ++microbatch)
    all.push_back(chats_->conversations(sample_of(step, microbatch, 0), chunks_.rank));
  return all;
}

}  // namespace plumbline::training
