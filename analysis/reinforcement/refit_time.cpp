#include "analysis/reinforcement/refit_time.hpp"

#include <algorithm>

#include "analysis/reinforcement/memory_moves.hpp"
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

/// Replicas that train and have different parts of the model. Experts are most of a mixture's.
int shards_of(const ParallelConfig& parallel) {
  return std::max(parallel.effective_zero_stage() == 3 ? parallel.data() : 1, parallel.expert);
}

/// Part of the model, on one axis, that is in both the `i`-th of `m` pieces and the `j`-th of `n`.
double common_part(int i, int m, int j, int n) {
  const double begin = std::max(static_cast<double>(i) / m, static_cast<double>(j) / n);
  const double end = std::min((i + 1.0) / m, (j + 1.0) / n);
  return std::max(0.0, end - begin);
}

/// Part of the model that a rank has to generate with and trains itself; the least of all ranks.
double least_own_part(const ParallelConfig& from, const ParallelConfig& to) {
  const int ranks = std::min(from.world_size, to.world_size);
  const int shards = shards_of(from);
  double least = 1;
  for (int rank = 0; rank < ranks; ++rank) {
    const double tensor = common_part(rank % from.tensor, from.tensor, rank % to.tensor, to.tensor);
    const double stages = common_part(rank / (from.world_size / from.pipeline), from.pipeline,
                                      rank / (to.world_size / to.pipeline), to.pipeline);
    least = std::min(least, tensor * stages / shards);
  }
  return least;
}

}  // namespace

RefitSplit refit_split(const RunConfig& config) {
  const ParallelConfig& from = config.parallel;
  const ParallelConfig to = rollout_config(config).parallel;
  const int shards = shards_of(from);
  const bool same = from.tensor == to.tensor && from.pipeline == to.pipeline;
  RefitSplit split{std::max(from.tensor, to.tensor) * shards, std::max(from.pipeline, to.pipeline)};
  split.is_there =
      !config.reinforcement.rollout.own_ranks() && shards == 1 && (same || from.tensor * from.pipeline == 1);
  return split;
}

Bytes replica_weights(const RunConfig& config, const GenerationPrediction& rollout) {
  Bytes weights;
  for (const GenerationMemory& rank : rollout.ranks) weights += rank.parameters;
  return weights * rollout_config(config).parallel.tensor;
}

Refit refit_of(const RunConfig& config, const GenerationPrediction& rollout,
               const HardwareProfile& hardware) {
  const RunConfig generating = rollout_config(config);
  const ParallelConfig& from = config.parallel;
  const ParallelConfig& to = generating.parallel;
  const bool apart = config.reinforcement.rollout.own_ranks();
  const int here = gpus_per_node(hardware, std::max(from.world_size, to.world_size));
  Refit refit;
  refit.weights = replica_weights(config, rollout);
  refit.whole = !config.machine.own_step();
  // Part of a model's shards that a node of the training layout has.
  const double on_node =
      std::min(1.0, static_cast<double>(here) / (from.tensor * from.pipeline * from.expert));
  if (!refit.whole) {
    const Bytes part = refit.weights / to.tensor / to.pipeline;
    const Bytes own = apart ? Bytes{} : share_of(refit.weights, least_own_part(from, to));
    const double busiest = std::max(1.0, static_cast<double>(to.world_size) / from.world_size);
    const Bytes moved = share_of(part - own, busiest);
    const bool one_node = from.world_size + (apart ? to.world_size : 0) <= here;
    refit.between = one_node ? Bytes{} : share_of(moved, apart ? 1 : 1 - on_node);
    refit.inside = moved - refit.between;
    // All is cleared first. Messages are packed and unpacked.
    const MemoryMoves moves(config, hardware);
    refit.time = moves.fresh(part) + moves.clear(part) + moves.copy(own) + moves.copy(moved) * 2;
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
