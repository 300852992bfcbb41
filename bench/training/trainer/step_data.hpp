// Token ids that a data-parallel replica trains on in each step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bench/training/parameters/sequence_chunks.hpp"
#include "bench/training/parameters/tokens_ahead.hpp"
#include "bench/training/trainer/chat_samples.hpp"
#include "bench/training/trainer/loss_mask.hpp"
#include "core/config/run_config.hpp"
#include "core/files/token_data.hpp"

namespace plumbline::training {

/// (microbatches, micro_batch_size × tokens of a sequence on the rank) ids each; a target is the id after
/// its input.
struct StepTokens {
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;  // -100 where the loss mask has 0
  std::int64_t counted = 0;           // tokens of the whole global batch, all replicas, that have a target
  TokensAhead ahead;
  std::vector<Conversations> conversations;  // StepData::conversations of the step
};

/// Step s takes the samples [s·B, (s+1)·B) of the source, B = global batch size. Micro-batch m of replica d
/// takes the samples (m·D + d)·b … of these, so that a step's samples do not depend on the parallel
/// split. Context-parallel ranks take their chunks of the same samples. With task sft samples are
/// conversations or packs of them (ChatSamples).
class StepData {
 public:
  StepData(const RunConfig& config, int data_rank);
  /// Throws InputError when the loss mask does not belong to the data.
  StepTokens step(std::int64_t index) const;
  /// With packed_sequence: the conversations in each of this rank's micro-batches; else empty.
  std::vector<Conversations> conversations(std::int64_t step) const;

 private:
  /// Global number of the sample `i` of a micro-batch.
  std::int64_t sample_of(std::int64_t step, std::int64_t microbatch, std::int64_t i) const;
  std::int64_t counted(std::int64_t sample, std::int64_t k) const;
  /// For module k, 0: the model.
  void add_targets(std::int64_t sample, std::int64_t k, std::vector<std::int32_t>& inputs,
                   std::vector<std::int32_t>& targets) const;
  const RunConfig& config_;
  SequenceChunks chunks_;
  int replica_;
  std::optional<ChatSamples> chats_;  // with task sft; else the other two
  std::optional<TokenSource> source_;
  std::optional<LossMask> mask_;
};

}  // namespace plumbline::training
