// Training checkpoints of a run: when it writes them, and which one it resumes from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace plumbline::training {

struct CheckpointOptions {
  std::string folder;          // empty: none are written
  int interval = 0;            // steps between two; 0: only after the last step
  int keep = 2;                // complete ones that stay
  bool async = false;          // written alongside the next steps
  bool resume_newest = false;  // `resume` is to become the newest complete one
  bool prepared = false;       // already done for all ranks
  std::string resume{};        // folder of the complete checkpoint to resume from; empty: from the first step

  bool on() const { return !folder.empty() || !resume.empty(); }
};

/// Cost of checkpoints in a run. Plain figures of this process, from its start on.
struct CheckpointCosts {
  int written = 0;
  int failed = 0;                // a rank could not write its shard; the run went on with the one before
  Bytes bytes;                   // of one checkpoint, all shards
  Bytes largest_buffer;          // host memory of the rank with the largest shard, outside of the arena
  std::vector<Seconds> stalls;   // of each written one: how long training stood still
  std::vector<Seconds> durable;  // of each: from the start of the save until it could be read back
  std::int64_t resumed_step = 0;
  Seconds restore;  // reading the checkpoint
};

}  // namespace plumbline::training
