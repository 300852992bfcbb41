// The key checkpoints of a measurement: cost of training checkpoints in a run.
#pragma once

#include <cstdint>

#include "core/base/units.hpp"

namespace plumbline {

struct CheckpointReport {
  std::int64_t interval = 0;  // steps between two; 0: only after the last step
  bool async = false;         // written alongside the next steps
  std::int64_t written = 0;
  std::int64_t failed = 0;
  Bytes bytes;           // of one, all shards
  Bytes largest_buffer;  // host memory outside of the arena, of the rank with the largest shard
  Seconds stall;         // mean time that training stood still for one
  Seconds stall_max;
  Seconds durable;                // mean time until one could be read back
  std::int64_t resumed_step = 0;  // 0: the run began with the first step
  Seconds restore;                // from a rank's start of allocating until it could continue
  friend bool operator==(const CheckpointReport&, const CheckpointReport&) = default;
};

}  // namespace plumbline
