// Number of ranks of a sequence that send each other messages round a ring.
#pragma once

#include "core/config/parallel_config.hpp"

namespace plumbline {

/// All that share a sequence with p2p, with a2a+p2p the groups that have exchanged heads; 1: none do.
inline int context_ring(const ParallelConfig& parallel) {
  if (parallel.cp.comm_type != CpCommType::p2p && !parallel.hierarchical()) return 1;
  return parallel.context / parallel.head_ranks();
}

}  // namespace plumbline
