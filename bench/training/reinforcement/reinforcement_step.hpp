// A step of GRPO (arXiv:2402.03300) or PPO (arXiv:1707.06347) on one rank, phase after phase.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/training/generate/generator.hpp"
#include "bench/training/reinforcement/experience.hpp"
#include "bench/training/reinforcement/movable_states.hpp"
#include "bench/training/reinforcement/refit.hpp"
#include "bench/training/stage/rank_stages.hpp"
#include "bench/training/weights/weights.hpp"

namespace plumbline::reinforcement {

enum class Phase {
  refit,
  offload_actor,
  rollout,
  reference_scores,
  values,
  load_actor,
  actor_scores,
  advantages,
  critic_updates,
  updates
};
constexpr int kPhases = 10;
constexpr std::string_view phase_name(Phase phase) {
  constexpr std::string_view kNames[] = {"refit",
                                         "offload actor",
                                         "rollout",
                                         "reference log-probabilities",
                                         "values",
                                         "load actor",
                                         "actor log-probabilities",
                                         "advantages",
                                         "critic updates",
                                         "updates"};
  return kNames[static_cast<std::size_t>(phase)];
}

/// One phase on one rank, all its parts together; all 0 if the step has no such phase.
struct PhaseMeasurement {
  Seconds time;
  MemoryBreakdown peak;   // at the moment of its largest total
  MemoryBreakdown after;  // at its end
};

/// Updates of one model, on all ranks.
struct Updates {
  std::vector<double> losses;
  double gradient_norm = 0;  // of the last one
};

struct StepOutcome {
  std::array<PhaseMeasurement, kPhases> phases;
  std::vector<Response> responses;  // on all ranks
  Updates actor, critic;
  double mean_reward = 0;
  double mean_kl = 0;             // over all ids, of the estimator; 0 without a reference
  double explained_variance = 0;  // with a critic: share of the returns' variance in its values
  RefitTraffic refit;
};

/// Why a valid step is not executed, or empty. One line that names the key.
std::string why_not_executed(const RunConfig& config, const Schedule& schedule);

/// The critic's training step: `config` with its model, and without the actor's weights.
RunConfig critic_config(const RunConfig& config);

class ReinforcementStep {
 public:
  /// Allocates the training states of actor and critic and, with a KL coefficient, the reference. Colocated,
  /// each is on the host but for its phases; else all stay. `rollout`: of rollout_config()'s layout. `lane`:
  /// to the host's memory; null: the arena is in host memory. Weights are undefined until they are loaded.
  /// All must outlive it. Throws OutOfMemory.
  ReinforcementStep(const RunConfig& config, const Schedule& schedule, Operators& operators,
                    Communicator& training, Communicator& rollout, Communicator& control, Arena& arena,
                    HostLane* lane = nullptr);

  /// Weights of actor and reference. Not emulated.
  void load(const training::SliceReader& weights);
  /// Weights of the critic, which must be there. Not emulated.
  void load_critic(const training::SliceReader& weights);
  /// A response ends with one of these ids, or after max_new_tokens.
  void end_with(std::vector<std::int32_t> ids) { end_ids_ = std::move(ids); }
  /// Step `index`, from 0 on. Prompts and draws follow from seed + index. Collective.
  StepOutcome run(int index);

  /// The most that models had on the host at a time.
  Bytes host_peak() const { return host_ ? host_->arena.peak() : Bytes{}; }
  training::RankStages& actor() { return actor_; }
  /// With task ppo.
  training::RankStages& critic() { return *critic_; }

 private:
  template <class Work>
  void measure(Phase phase, StepOutcome& outcome, const Work& work);
  template <class Work>
  void move(Phase phase, StepOutcome& outcome, const Work& work);
  void draw_responses(int index, StepOutcome& outcome);
  void update_models(StepOutcome& outcome);
  void set_advantages(StepOutcome& outcome) const;
  void set_group_advantages(StepOutcome& outcome) const;
  void set_generalised_advantages(StepOutcome& outcome) const;
  Updates update(training::RankStages& model, const TokenNumbers& numbers,
                 std::span<const Response> responses);

  const RunConfig config_;
  const RunConfig rollout_config_;
  const RunConfig reference_config_;
  const Schedule& schedule_;
  Operators& operators_;
  Communicator& training_;
  Communicator& rollout_;
  Communicator& control_;
  Arena& arena_;
  std::unique_ptr<HostLane> own_lane_;
  std::unique_ptr<training::HostSide> host_;  // colocated
  training::RankStages actor_;
  MovableStates actor_states_;
  Seconds reference_communication_;
  std::optional<training::RankResources> reference_;
  std::optional<MovableStates> reference_states_;
  std::optional<training::RankStages> critic_;
  std::optional<MovableStates> critic_states_;
  std::vector<std::int32_t> end_ids_;
};

}  // namespace plumbline::reinforcement
