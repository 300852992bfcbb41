// Refit: the actor's weights from the ranks that train to those that generate.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/generation.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct Refit {
  Bytes weights;       // of one replica that generates, over all its ranks
  Bytes inside;        // that the busiest rank takes from its own node
  Bytes between;       // and from others
  bool whole = false;  // every rank takes whole tensors, not its shards
  Seconds time;        // of these messages, or of the framework's work for every tensor if that is longer
};

/// Shards go to shards (plumbline's own): a rank that generates receives its part, from all ranks that train
/// in equal shares. Frameworks take whole tensors. Where both sides share devices, every rank gathers the
/// model tensor by tensor over its pipeline and expert ranks and then its tensor ranks; a pool of its own
/// receives the model by a broadcast (NVIDIA-NeMo/RL@7ea279a docs/design-docs/nccl-reshard-refit.md, default
/// transport).
Refit refit_of(const RunConfig& config, const GenerationPrediction& rollout, const HardwareProfile& hardware);

}  // namespace plumbline
