#include "analysis/reinforcement/fitting_change.hpp"

#include <fmt/format.h>

#include <vector>

#include "analysis/reinforcement/reinforcement_prediction.hpp"
#include "core/base/error.hpp"

namespace plumbline {
namespace {

struct Change {
  std::string text;
  RunConfig config;
};

std::vector<Change> changes_of(const RunConfig& config) {
  std::vector<Change> changes;
  const auto add = [&](std::string text, const auto& apply) {
    Change& made = changes.emplace_back(Change{std::move(text), config});
    apply(made.config);
  };
  const RolloutConfig& rollout = config.reinforcement.rollout;
  if (rollout.placement == RolloutPlacement::resident)
    add("rollout_placement: colocated",
        [](RunConfig& c) { c.reinforcement.rollout.placement = RolloutPlacement::colocated; });
  if (is_inference_engine(rollout.software)) {
    for (const double share : {0.8, 0.7, 0.6, 0.5, 0.4, 0.3})
      if (rollout.memory_utilization == 0 || share < rollout.memory_utilization)
        add(fmt::format("gpu_memory_utilization: {}", share),
            [&](RunConfig& c) { c.reinforcement.rollout.memory_utilization = share; });
  } else {
    const std::int64_t at_once = rollout.max_sequences > 0 ? rollout.max_sequences : 4096;
    for (std::int64_t fewer = at_once / 2; fewer > 0; fewer /= 2)
      add(fmt::format("max_num_seqs: {}", fewer),
          [&](RunConfig& c) { c.reinforcement.rollout.max_sequences = static_cast<int>(fewer); });
  }
  for (std::int64_t size = config.batch.micro_batch_size / 2; size > 0; size /= 2)
    add(fmt::format("micro_batch_size: {}", size), [&](RunConfig& c) { c.batch.micro_batch_size = size; });
  if (config.recompute.granularity != Recompute::full)
    add("recompute_granularity: full", [](RunConfig& c) { c.recompute.granularity = Recompute::full; });
  for (const int stage : {1, 3})
    if (stage > config.parallel.dp.zero_stage)
      add(fmt::format("zero_stage: {}", stage), [&](RunConfig& c) { c.parallel.dp.zero_stage = stage; });
  for (int ranks = config.parallel.tensor * 2; ranks <= 8; ranks *= 2)
    add(fmt::format("tensor_model_parallel_size: {}", ranks), [&](RunConfig& c) {
      c.parallel.tensor = ranks;
      c.parallel.sequence_parallel = true;
    });
  return changes;
}

}  // namespace

std::optional<std::string> fitting_change(const RunConfig& config, const HardwareProfile& hardware,
                                          const std::function<RepeatedSchedule(const RunConfig&)>& make) {
  for (const Change& change : changes_of(config)) {
    try {
      const ReinforcementPrediction made = predict_reinforcement(change.config, hardware, make);
      if (made.fits) return fmt::format("{} fits, {:.1f} s a step", change.text, made.step.value);
    } catch (const InputError&) {
      continue;  // a change that another key forbids is none
    }
  }
  return std::nullopt;
}

}  // namespace plumbline
