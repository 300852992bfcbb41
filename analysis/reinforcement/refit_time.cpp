#include "analysis/reinforcement/refit_time.hpp"

#include <algorithm>

#include "analysis/reinforcement/rl_framework.hpp"
#include "analysis/time/operator_time.hpp"
#include "core/reinforcement/phases.hpp"

namespace plumbline {
namespace {

int gpus_per_node(const HardwareProfile& hardware, int world) {
  const Accelerator* const accelerator = hardware.accelerator();
  return accelerator != nullptr ? std::max(1, accelerator->constants.network.gpus_per_node) : world;
}

Bytes share_of(Bytes bytes, double share) {
  return {static_cast<std::int64_t>(static_cast<double>(bytes.value) * share)};
}

}  // namespace

Refit refit_of(const RunConfig& config, const GenerationPrediction& rollout,
               const HardwareProfile& hardware) {
  const RunConfig generating = rollout_config(config);
  const ParallelConfig& from = config.parallel;
  const ParallelConfig& to = generating.parallel;
  const bool apart = config.reinforcement.rollout.own_ranks();
  const int here = gpus_per_node(hardware, std::max(from.world_size, to.world_size));
  Refit refit;
  for (const GenerationMemory& rank : rollout.ranks) refit.weights += rank.parameters * to.tensor;
  refit.whole = !config.machine.own_step();
  // Part of a model's shards that a node of the training layout has.
  const double on_node =
      std::min(1.0, static_cast<double>(here) / (from.tensor * from.pipeline * from.expert));
  if (!refit.whole) {
    const double part = 1.0 / (to.tensor * to.pipeline);
    const double busiest = std::max(1.0, static_cast<double>(to.world_size) / from.world_size);
    const Bytes moved = share_of(refit.weights, part * busiest);
    const bool one_node = from.world_size + (apart ? to.world_size : 0) <= here;
    refit.between = one_node ? Bytes{} : share_of(moved, apart ? 1 : 1 - on_node);
    refit.inside = moved - refit.between;
  } else {
    const bool one_node = from.world_size + (apart ? to.world_size : 0) <= here;
    const Bytes gathered = share_of(refit.weights, (1 - on_node) / from.tensor);
    refit.between = one_node ? Bytes{} : apart ? refit.weights : gathered;
    refit.inside = refit.weights;
  }
  const int world = from.world_size + (apart ? to.world_size : 0);
  if (refit.inside.value > 0 && world > 1) refit.time += message_time(hardware, world, refit.inside, false);
  if (refit.between.value > 0) refit.time += message_time(hardware, world, refit.between, true);
  // Engines load a bucket of tensors while the next one is gathered.
  const FrameworkCosts costs = framework_costs(config.reinforcement.rollout.framework);
  if (refit.whole)
    refit.time =
        std::max(refit.time, costs.per_tensor * static_cast<double>(checkpoint_tensors(config.model)));
  return refit;
}

}  // namespace plumbline
