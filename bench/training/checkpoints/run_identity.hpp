// What a run and the checkpoint that it goes on from must have alike, and how the one that wrote it was cut.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bench/training/checkpoints/step_folder.hpp"
#include "core/config/run_config.hpp"

namespace plumbline::training {

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

/// The model's keys, what a step's samples and random numbers come from, and how states are kept. Random numbers
/// of a step come from counters (seed, step, place), so that seed and step are all of the random state. Reads the
/// length of the data; throws InputError as TokenSource.
NamedTexts identity_of(const RunConfig& config);
/// Parallel sizes, ZeRO stage and schedule.
NamedTexts split_of(const RunConfig& config);

/// Throws InputError naming the first key that differs: another model, batch, precision, optimizer or data.
void require_same_run(const FoundCheckpoint& checkpoint, const RunConfig& config);

/// Bytes of the tensors of one checkpoint, all shards together: fp32 weights and the optimizer's moments.
Bytes checkpoint_bytes(const RunConfig& config);

}  // namespace plumbline::training
