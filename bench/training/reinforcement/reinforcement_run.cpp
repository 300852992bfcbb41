#include "bench/training/reinforcement/reinforcement_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/training/trainer/host_values.hpp"
#include "core/base/error.hpp"
#include "core/base/statistics.hpp"

namespace plumbline::reinforcement {
namespace {

/// A phase of one step, over all ranks.
PhaseSummary over_ranks(Communicator& control, const PhaseMeasurement& mine) {
  PhaseSummary largest;
  for (const PhaseSummary& each : training::from_every_rank(
           control, PhaseSummary{mine.start, mine.time, mine.peak.total(), mine.after.total()})) {
    if (each.peak == Bytes{}) continue;
    largest.start = largest.peak == Bytes{} ? each.start : std::min(largest.start, each.start);
    largest.time = std::max(largest.time, each.time);
    largest.peak = std::max(largest.peak, each.peak);
    largest.held = std::max(largest.held, each.held);
  }
  return largest;
}

Bytes sum_over_ranks(Communicator& control, Bytes mine) {
  Bytes sum;
  for (const Bytes each : training::from_every_rank(control, mine)) sum += each;
  return sum;
}

/// Ranks that train have all phases but the rollout, those of the rollout alone it and the refit.
void set_idle(ReinforcementResult& result) {
  const auto time = [&](Phase phase) { return result.phases[static_cast<std::size_t>(phase)].time; };
  Seconds all;
  for (const PhaseSummary& phase : result.phases) all += phase.time;
  const auto rest = [&](Seconds busy) { return std::max(0.0, 1 - busy / result.step); };  // of medians
  result.training_idle = rest(all - time(Phase::rollout));
  result.rollout_idle = rest(time(Phase::refit) + time(Phase::rollout));
}

void add_numbers(const RunConfig& config, const StepOutcome& outcome, ReinforcementResult& result) {
  result.rewards.push_back(outcome.mean_reward);
  result.divergences.push_back(outcome.mean_kl);
  result.losses.push_back(mean(outcome.actor.losses));
  result.staleness.push_back(outcome.actor.staleness);
  result.gradient_norm = outcome.actor.gradient_norm;
  if (!config.has_critic()) return;
  result.critic_losses.push_back(mean(outcome.critic.losses));
  result.explained_variances.push_back(outcome.explained_variance);
  result.critic_gradient_norm = outcome.critic.gradient_norm;
}

double mean_length(const std::vector<Response>& responses) {
  std::int64_t tokens = 0;
  for (const Response& each : responses) tokens += std::ssize(each.ids);
  return static_cast<double>(tokens) / static_cast<double>(responses.size());
}

/// A critic that is like the actor starts from its weights, but for its head; another one is random.
training::SliceReader critic_weights(const RunConfig& config, training::SliceReader actor) {
  training::SliceReader random = training::initial_weights(critic_config(config));
  if (config.reinforcement.critic) return random;
  return [random = std::move(random), actor = std::move(actor)](const training::Parameter& parameter,
                                                                const training::Slice& slice, float* out,
                                                                std::int64_t stride) {
    const bool head = parameter.role == "output.weight";
    (head ? random : actor)(parameter, slice, out, stride);
  };
}

void check_finite(const std::vector<double>& losses, int step) {
  if (losses.empty() || std::isfinite(losses.back())) return;
  throw Error(
      fmt::format("step {}: found a loss that is not finite; change learning_rate or precision", step));
}

/// Initial weights of actor, reference and critic.
template <class Step>
void load_weights_of(const RunConfig& config, Step& step) {
  const training::SliceReader weights = training::initial_weights(config);
  step.load(weights);
  if (config.has_critic()) step.load_critic(critic_weights(config, weights));
  if (config.reinforcement.reward) step.load_reward(training::initial_weights(reward_config(config)));
}

}  // namespace

ReinforcementResult reinforce(const RunConfig& config, const Schedule& schedule, Operators& operators,
                              const StepCommunicators& messages, const StepCommunicators& controls,
                              std::unique_ptr<MemorySource> memory, HostLane* lane,
                              const ReinforcementProgress& progress) {
  const bool emulated = config.machine.backend == Backend::emulated;
  Arena arena(config.machine.memory_budget, std::move(memory));
  Communicator& control = controls.all();
  ReinforcementStep step(config, schedule, operators, messages, controls, arena, lane);
  if (!emulated) load_weights_of(config, step);
  ReinforcementResult result;
  std::array<std::vector<Seconds>, kPhases> times, starts;
  std::vector<Seconds> steps;
  const int all = config.measure.warmup_steps + config.measure.steps;
  for (int index = 0; index < all; ++index) {
    const StepOutcome outcome = step.run(index);
    if (step.trains()) add_numbers(config, outcome, result);
    result.mean_length = mean_length(outcome.responses);
    if (!emulated) {
      check_finite(result.losses, index + 1);
      check_finite(result.critic_losses, index + 1);
    }
    result.refit_sent = sum_over_ranks(control, outcome.refit.sent);
    result.refit_copied = sum_over_ranks(control, outcome.refit.copied);
    const bool timed = index >= config.measure.warmup_steps;
    for (std::size_t phase = 0; phase < kPhases; ++phase) {
      const PhaseSummary found = over_ranks(control, outcome.phases[phase]);
      PhaseSummary& kept = result.phases[phase];
      kept.peak = std::max(kept.peak, found.peak);
      kept.held = std::max(kept.held, found.held);
      if (!timed) continue;
      times[phase].push_back(found.time);
      starts[phase].push_back(found.start);
    }
    Seconds longest;
    for (const Seconds each : training::from_every_rank(control, outcome.time))
      longest = std::max(longest, each);
    if (timed) steps.push_back(longest);
    if (control.rank() == 0 && progress) progress(index + 1, all, outcome.mean_reward);
  }
  for (std::size_t phase = 0; phase < kPhases && !steps.empty(); ++phase) {
    result.phases[phase].time = lower_median(times[phase]);
    result.phases[phase].start = lower_median(starts[phase]);
  }
  for (const Bytes each : training::from_every_rank(control, step.host_peak()))
    result.host = std::max(result.host, each);
  if (steps.empty()) return result;
  result.step = lower_median(steps);
  if (config.reinforcement.rollout.own_ranks()) set_idle(result);
  return result;
}

void rehearse(const RunConfig& config, const Schedule& schedule, Operators& operators, Communicator& messages,
              Communicator& control, std::unique_ptr<MemorySource> memory, HostLane* lane) {
  Arena arena(config.machine.memory_budget, std::move(memory));
  TrainingRank rank(config, schedule, operators, messages, control, arena, lane);
  load_weights_of(config, rank);
  rank.rehearse();
}

}  // namespace plumbline::reinforcement
