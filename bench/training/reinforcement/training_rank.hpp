// A rank's part in scoring and training: actor, reference, reward model and critic.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "bench/training/reinforcement/movable_states.hpp"
#include "bench/training/reinforcement/scoring.hpp"
#include "bench/training/reinforcement/step_outcome.hpp"
#include "bench/training/stage/rank_stages.hpp"
#include "bench/training/weights/weights.hpp"

namespace plumbline::reinforcement {

/// The critic's training step: `config` with its model, and without the actor's weights.
RunConfig critic_config(const RunConfig& config);
/// Likewise the reward model, which must be there.
RunConfig reward_config(const RunConfig& config);
/// The actor's: without the KL that is in the rewards.
RunConfig actor_config(RunConfig config);

class TrainingRank {
 public:
  /// Allocates the training states of actor and critic, the reward model and, with a KL coefficient, the
  /// reference. Colocated,
  /// each is on the host but for its phases; else all stay. `lane`: to the host's memory; null: the arena is
  /// in host memory. `control`: values between hosts' memories, on the same ranks. All must outlive it.
  /// Throws OutOfMemory.
  TrainingRank(const RunConfig& config, const Schedule& schedule, Operators& operators,
               Communicator& messages, Communicator& control, Arena& arena, HostLane* lane);

  void load(const training::SliceReader& weights);
  void load_critic(const training::SliceReader& weights);
  void load_reward(const training::SliceReader& weights) { reward_->load(weights); }

  /// Before a refit, in it, and behind it: what is not needed goes to the host.
  void begin_refit(const PhaseMeter& meter);
  const training::RankResources& refitted();
  void end_refit(const PhaseMeter& meter);
  /// All phases from scoring on. Collective over the ranks that train.
  void train(const PhaseMeter& meter);

  /// Updates of both models with responses of token 0, which change their weights.
  void rehearse();

  /// Updates of the actor so far.
  std::int64_t updates() const { return updates_; }
  Bytes host_peak() const { return host_ ? host_->arena.peak() : Bytes{}; }
  training::RankStages& actor() { return actor_; }
  training::RankStages& critic() { return *critic_; }

 private:
  template <class Work>
  void move(Phase phase, const PhaseMeter& meter, const Work& work);
  void score_responses(const PhaseMeter& meter);
  void update_models(const PhaseMeter& meter);
  void set_advantages(StepOutcome& outcome) const;
  void set_group_advantages(StepOutcome& outcome) const;
  void set_generalised_advantages(StepOutcome& outcome) const;
  Updates update(training::RankStages& model, const TokenNumbers& numbers,
                 std::span<const Response> responses);

  const RunConfig& config_;
  const Schedule& schedule_;
  Operators& operators_;
  Communicator& messages_;
  Communicator& control_;
  std::unique_ptr<HostLane> own_lane_;
  std::unique_ptr<training::HostSide> host_;  // colocated
  training::RankStages actor_;
  MovableStates actor_states_;
  std::optional<ScoringModel> reference_, reward_;
  std::optional<training::RankStages> critic_;
  std::optional<MovableStates> critic_states_;
  std::int64_t updates_ = 0;
};

}  // namespace plumbline::reinforcement
