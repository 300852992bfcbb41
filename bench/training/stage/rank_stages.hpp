// All stages of one rank, on which the executor runs a schedule.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/training/ends/rank_resources.hpp"
#include "bench/training/parameters/tokens_ahead.hpp"
#include "bench/training/stage/distillation.hpp"
#include "bench/training/stage/stage.hpp"
#include "bench/training/stage/step_end.hpp"
#include "core/run/executor.hpp"

namespace plumbline::training {

/// Gradients and loss follow from `start_step` and then the schedule's actions. The gradient is of the mean
/// loss over all tokens of the global batch.
class RankStages final : public StageProgram {
 public:
  /// Allocates everything held for the whole run. Contents of the parameters are undefined until loaded.
  /// Throws Error when the schedule holds both copies of a stage on this rank. `lane`: to the host's memory,
  /// if activations are offloaded; null: the arena is in host memory.
  RankStages(const RunConfig& config, const Schedule& schedule, Operators& operators,
             Communicator& communicator, Arena& arena, HostLane* lane = nullptr);
  RankStages(const RankStages&) = delete;
  RankStages& operator=(const RankStages&) = delete;

  /// Token ids of this replica's micro-batches, (microbatches, T) each: inputs (used on a first stage) and
  /// targets (used on a last one, -100 for none); null for the emulated backend. `counted` tokens of the
  /// global batch have a target. Starts from zero gradients and loss.
  void start_step(const std::int32_t* inputs, const std::int32_t* targets, std::int64_t counted) {
    start_step(inputs, targets, counted, {});
  }
  /// `ahead`: of MTP modules; without counts all possible targets.
  void start_step(const std::int32_t* inputs, const std::int32_t* targets, std::int64_t counted,
                  const TokensAhead& ahead);
  /// Before start_step, with packed_sequence: conversations of this replica's micro-batches.
  void use_conversations(std::vector<Conversations> by_microbatch) {
    rank_.conversations = std::move(by_microbatch);
  }
  /// Before start_step, in reinforcement learning on a last stage: rows of RankResources::policy_tokens. The
  /// loss is then the sum of weighted token losses if start_step counts 1 token.
  void use_policy_tokens(const float* tokens) {
    if (rank_.policy_tokens) rank_.context.operators.upload(tokens, rank_.policy_tokens);
  }
  /// For forwards between steps.
  RankResources& resources() { return rank_; }
  /// Pairs of tokens in this step's backwards of packed sequences, summed over the rank's layers.
  double attended_pairs() const { return rank_.attended_pairs; }
  /// The next start_step begins the step just made once more: the same elements are dropped.
  void repeat_step() { --rank_.step; }
  /// Weights, moments and the state of FP8 scaling have been filled with those after `steps` steps.
  /// `scale`: with fp16.
  void resume_after(std::int64_t steps, const std::optional<LossScaleState>& scale);
  /// All tokens have one.
  void start_step(const std::int32_t* inputs, const std::int32_t* targets) {
    start_step(inputs, targets, config_.batch.global_batch_size * config_.batch.seq_length);
  }

  /// Throws Error for a stage that is not here, for vocabulary passes unless the vocabulary is split, and for
  /// actions of a teacher when the configuration has none.
  void run(const Action& action) override;
  /// With overlap_moe_expert_parallel_comm (bench/training/overlap.md).
  bool runs_pairs() const override { return rank_.context.turns != nullptr; }
  /// One computes while the other's expert exchanges are in transit.
  void run_pair(const Action& first, const Action& second,
                const std::function<void(const Action&)>& goes_on) override;
  Matrix send_buffer(const Action& action) override;
  Matrix receive_buffer(const Action& action) override;
  void finished(const Action& action) override;

  /// Sum of the token losses of this step's forwards on this rank, divided by the counted tokens of the
  /// batch. 0 unless it holds a last stage. Valid once the operators have been waited for. Add over data and
  /// pipeline ranks for the mean loss.
  double loss() const;
  /// The same for the losses of every MTP module, each over its counted tokens, before scaling.
  std::vector<double> module_losses() const;
  double gradient_norm() const { return end_.gradient_norm(); }
  /// With fp16, after this step. The gradients of the step are those of context().loss_scale() losses.
  std::optional<LossScaleState> loss_scale() const {
    return loss_scaler_ ? std::optional(loss_scaler_->state()) : std::nullopt;
  }
  /// Time that compute actions since start_step spent in collectives over the tensor group.
  Seconds tensor_communication() const { return tensor_communication_; }
  /// Time that compute actions since start_step waited for gathers and reductions over the data group.
  Seconds data_communication() const { return data_communication_; }
  /// Time that they waited for copies to and from the host.
  Seconds host_waits() const { return host_ ? host_->waited : Seconds{}; }
  /// The most that was there at a time.
  Bytes host_peak() const { return host_ ? host_->arena.peak() : Bytes{}; }
  /// Time since start_step in which this rank waited for the collectives of a split vocabulary.
  VocabularySeconds vocabulary_waits() const {
    return vocabulary_ ? vocabulary_->waits.so_far() : VocabularySeconds{};
  }
  /// Those collectives since start_step, on a clock that was 0 at `origin`.
  std::vector<CollectiveEvent> collectives(Seconds origin) {
    return vocabulary_ ? vocabulary_->waits.events(origin) : std::vector<CollectiveEvent>();
  }
  /// Memory during and after each action since start_step.
  const std::vector<MemorySample>& samples() const { return samples_; }
  /// Tokens of each MoE expert in the forwards since start_step.
  const std::vector<ExpertLoad>& expert_load() const { return rank_.expert_load; }
  /// The optimizer action ends by clearing the gradients for the next step; not so when they are to be read.
  void keep_gradients(bool keep) { keep_gradients_ = keep; }

  const TrainingContext& context() const { return rank_.context; }
  const StageMap& placement() const { return rank_.placement; }
  const RankParameters& parameters() const { return rank_.parameters; }
  const ParameterMemory& memory() const { return rank_.memory; }
  std::vector<Fp8State> fp8_states() const { return rank_.fp8.states(); }
  /// Null without one.
  const RankResources* teacher() const { return distillation_ ? &distillation_->teacher() : nullptr; }

 private:
  ModelStage& stage(const Action& action);
  template <class Work>
  void count_waits(const Work& work);
  void run_action(const Action& action);
  void run_compute(const Action& action);
  void run_vocabulary(const Action& action);
  void finish();
  void clear_gradients();

  const RunConfig config_;
  Seconds tensor_communication_;
  Seconds data_communication_;
  RunningLoads running_loads_;             // with global_aux_loss
  std::optional<LossScaler> loss_scaler_;  // with fp16
  std::unique_ptr<HostLane> own_lane_;
  std::unique_ptr<HostSide> host_;  // with cpu_offloading_num_layers
  std::unique_ptr<Turns> turns_;    // with overlap_moe_expert_parallel_comm
  RankResources rank_;
  std::unique_ptr<VocabularyEnds> vocabulary_;       // with a split vocabulary
  std::unique_ptr<DistillationStage> distillation_;  // with a teacher: has the rank's only stage
  std::vector<std::unique_ptr<ModelStage>> own_stages_;
  std::vector<ModelStage*> stages_;  // by stage of the schedule; null if not here
  StepEnd end_;
  std::vector<MemorySample> samples_;
  bool keep_gradients_ = false;
  bool gradients_clear_ = false;
};

}  // namespace plumbline::training
