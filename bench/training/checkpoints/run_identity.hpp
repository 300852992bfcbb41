// Settings that a run and the checkpoint it resumes from must share, and the parallel split of the run that
// wrote it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/training/checkpoints/step_folder.hpp"
#include "core/config/run_config.hpp"

namespace plumbline::training {

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

/// The model's keys, the sources of a step's samples and random numbers, and the form of states. Random
/// numbers of a step come from counters (seed, step, place), so that seed and step are all of the random
/// state. Reads the length of the data; throws InputError as TokenSource.
NamedTexts identity_of(const RunConfig& config);
/// Parallel sizes, ZeRO stage and schedule.
NamedTexts split_of(const RunConfig& config);

/// Throws InputError naming the first key that differs: another model, batch, precision, optimizer or data.
void require_same_run(const FoundCheckpoint& checkpoint, const RunConfig& config);

/// Bytes of the tensors of one checkpoint, all shards together: fp32 weights and the optimizer's moments.
Bytes checkpoint_bytes(const RunConfig& config);

}  // namespace plumbline::training
