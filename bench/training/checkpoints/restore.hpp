// Resumes training from a checkpoint, in the split that wrote it or any other.
#pragma once

#include "bench/training/checkpoints/step_folder.hpp"
#include "bench/training/stage/rank_stages.hpp"

namespace plumbline::training {

/// Fills the rank's owned and held state as after the checkpoint's last step: in the same split to the bit.
/// Frozen weights stay. The shards were verified. Collective over the data ranks. Throws InputError.
void restore(RankStages& stages, const FoundCheckpoint& checkpoint);

}  // namespace plumbline::training
