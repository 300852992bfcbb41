// A step of GRPO (arXiv:2402.03300) or PPO (arXiv:1707.06347) on one rank, phase after phase.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/training/reinforcement/rollout_rank.hpp"
#include "bench/training/reinforcement/step_communicators.hpp"
#include "bench/training/reinforcement/training_rank.hpp"

namespace plumbline::reinforcement {

/// Why a valid step is not executed, or empty. One line that names the key.
std::string why_not_executed(const RunConfig& config, const Schedule& schedule);

class ReinforcementStep {
 public:
  /// This rank's parts: of training, of the rollout, or both. `control` carries values between hosts'
  /// memories; `lane`: to the host's memory; null: the arena is in host memory. Weights are undefined until
  /// they are loaded. All must outlive it. Throws OutOfMemory.
  ReinforcementStep(const RunConfig& config, const Schedule& schedule, Operators& operators,
                    const StepCommunicators& messages, const StepCommunicators& control, Arena& arena,
                    HostLane* lane = nullptr);

  /// Weights of actor and reference, where they are. Not emulated.
  void load(const training::SliceReader& weights) {
    if (training_) training_->load(weights);
  }
  /// Weights of the critic, which must be there on ranks that train. Not emulated.
  void load_critic(const training::SliceReader& weights) {
    if (training_) training_->load_critic(weights);
  }
  /// Weights of the reward model, likewise.
  void load_reward(const training::SliceReader& weights) {
    if (training_) training_->load_reward(weights);
  }
  /// A response ends with one of these ids, or after max_new_tokens.
  void end_with(std::vector<std::int32_t> ids) { end_ids_ = std::move(ids); }
  /// Step `index`: 0, then 1, … Prompts and draws follow from seed + index. One step off, the next step's
  /// responses are drawn meanwhile, and the first one's before it. Collective over all ranks.
  StepOutcome run(int index);

  /// The most that models had on the host at a time.
  Bytes host_peak() const { return training_ ? training_->host_peak() : Bytes{}; }
  bool trains() const { return training_.has_value(); }
  /// On a rank that trains.
  training::RankStages& actor() { return training_->actor(); }
  /// With task ppo.
  training::RankStages& critic() { return training_->critic(); }

 private:
  PhaseMeter meter(StepOutcome& outcome);
  generation::GenerationRequest request(int index) const;
  std::vector<Response> draw(int index, const PhaseMeter& meter);
  void share(std::vector<Response>& responses) const;

  const RunConfig config_;
  const RunConfig rollout_config_;
  Operators& operators_;
  const StepCommunicators& messages_;
  const StepCommunicators& control_;
  Arena& arena_;
  RefitSide from_, to_;
  std::optional<TrainingRank> training_;
  std::optional<RolloutRank> rollout_;
  std::vector<std::int32_t> end_ids_;
  std::vector<Response> ahead_;  // of the next step, one step off
};

}  // namespace plumbline::reinforcement
