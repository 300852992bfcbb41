// Refit: the actor's weights from the ranks that train to those that generate.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/generation.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct Refit {
  Bytes weights;       // replica_weights()
  Bytes inside;        // that the busiest rank takes from its own node
  Bytes between;       // and from others
  bool whole = false;  // every rank takes whole tensors, not its shards
  Seconds time;  // of these messages and of filling tensors, or of the framework's work for every tensor
};

/// The finer of both sides' splits, of plumbline's own step.
struct RefitSplit {
  int parts = 1;          // of a tensor, over tensor ranks and shards of ZeRO 3, or of experts
  int stages = 1;         // of the model
  bool is_there = false;  // a rank's part in the rollout is in what it trains: it receives nothing
  Bytes pair(Bytes weights) const { return weights / parts / stages; }  // about what two ranks share
};
RefitSplit refit_split(const RunConfig& config);

/// Weights of one replica that generates, over all its ranks.
Bytes replica_weights(const RunConfig& config, const GenerationPrediction& rollout);

/// Shards go to shards (plumbline's own): a rank that generates receives its part, from all ranks that train
/// in equal shares. Frameworks take whole tensors. Where both sides share devices, every rank gathers the
/// model tensor by tensor over its pipeline and expert ranks and then its tensor ranks; a pool of its own
/// receives the model by a broadcast (NVIDIA-NeMo/RL@7ea279a docs/design-docs/nccl-reshard-refit.md, default
/// transport).
Refit refit_of(const RunConfig& config, const GenerationPrediction& rollout, const HardwareProfile& hardware);

}  // namespace plumbline
