// Configurations whose step of reinforcement learning is not executed.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/training/reinforcement/reinforcement_step.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline::reinforcement {
namespace {

struct StepRefusal {
  std::string_view text;  // found and expected
  bool (*applies)(const RunConfig& config);
};

constexpr StepRefusal kStepRefusals[] = {
    {"fp8_format: found FP8 with states that move to the host, expected none; set rollout_placement: "
     "resident",
     [](const RunConfig& c) {
       return c.numerics.fp8.on() && c.reinforcement.rollout.placement == RolloutPlacement::colocated;
     }},
    {"rollout_software: found an inference engine, expected plumbline to run; leave it out",
     [](const RunConfig& c) { return c.reinforcement.rollout.software != "plumbline"; }},
    {"response_lengths: found a file, expected none to run, where the model decides; leave it out",
     [](const RunConfig& c) { return !c.reinforcement.rollout.lengths.empty(); }},
    {"response_length_mean: found one, expected 0 to run, where the model decides; leave it out",
     [](const RunConfig& c) { return c.reinforcement.rollout.length_mean > 0; }},
    {"vocab_parallel: found a split vocabulary, expected none with task grpo or ppo; leave it out",
     [](const RunConfig& c) { return c.parallel.splits_vocabulary(); }},
    {"context_parallel_size: found more than 1, expected 1 with task grpo or ppo; leave it out",
     [](const RunConfig& c) { return c.parallel.context > 1; }},
    {"hidden_dropout: found dropout, expected 0 with task grpo or ppo, whose ratios begin at 1; leave it out",
     [](const RunConfig& c) { return c.numerics.hidden_dropout > 0 || c.numerics.attention_dropout > 0; }},
    {"packed_sequence: found true, expected false to run task grpo or ppo; leave it out",
     [](const RunConfig& c) { return c.batch.packed_sequence; }},
    {"cpu_offloading_num_layers: found some, expected 0 with task grpo or ppo; leave it out",
     [](const RunConfig& c) { return c.offload.on(); }},
};

}  // namespace

std::string why_not_executed(const RunConfig& config, const Schedule& schedule) {
  std::vector<RunConfig> models = {config};
  if (config.has_critic()) models.push_back(critic_config(config));
  if (config.reinforcement.reward) models.push_back(reward_config(config));
  for (const StepRefusal& refusal : kStepRefusals)
    if (std::any_of(models.begin(), models.end(), refusal.applies)) return std::string(refusal.text);
  if (schedule.stages != schedule.ranks) {  // scoring takes one from every rank
    return fmt::format(
        "pipeline_schedule: found {}, expected one stage per rank with task grpo or ppo, such as 1f1b; "
        "change it",
        config.parallel.pp.schedule);
  }
  return generation::why_not_generated(rollout_config(config));
}

}  // namespace plumbline::reinforcement
