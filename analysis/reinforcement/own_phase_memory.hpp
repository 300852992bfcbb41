// Memory of plumbline's own step of reinforcement learning (bench/training/reinforcement/README.md).
#pragma once

#include <vector>

#include "analysis/reinforcement/phase_memory.hpp"

namespace plumbline {

/// Both sides are plumbline's.
bool is_own_step(const RunConfig& config);

/// As phase_memory(), but every model keeps its buffers and its vectors on the device, and the reference is
/// whole on every replica. To the byte, but for a refit's messages and numbers without gradients. `models`:
/// one stage on every pipeline rank.
MemoryParts own_phase_memory(const RunConfig& config, const RolloutPrediction& rollout,
                             const std::vector<TrainingModel>& models, PhaseKind kind,
                             const TrainingModel& active);

}  // namespace plumbline
