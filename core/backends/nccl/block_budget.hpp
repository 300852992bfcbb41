// Number of thread blocks that NCCL's kernels may hold on a device at once. A kernel that waits for another
// rank keeps its blocks on their multiprocessors. If those of several kernels do not fit together, none may
// ever get all it needs.
#pragma once

#include "core/parallel/layout.hpp"

namespace plumbline {

/// The communicators of one rank, by how long their kernels wait.
struct NcclLanes {
  int messages = 0;    // a channel and direction each: from its start until the other end comes
  int vocabulary = 0;  // collectives of a split vocabulary: for whole passes
  int started = 0;     // other groups whose collectives are started and run alongside, such as the data group
  bool awaited = false;  // groups whose collectives the computation waits for: one at a time
};

/// Thread blocks per communicator; a block takes a multiprocessor.
struct NcclBlocks {
  int per_message = 2;     // a channel has the pass that hides it: few are left waiting
  int per_vocabulary = 8;  // of a collective of a split vocabulary
  int per_started = 16;    // of a collective that runs alongside
  int per_awaited = 32;    // NCCL's own limit, where nothing bounds it and one host's GPUs communicate
};

/// The communicators of a rank. `channels`: of messages, to and from it.
NcclLanes lanes_of(const Layout& layout, int rank, int channels);

/// Blocks that wait while the rank computes: messages and collectives of a split vocabulary.
int blocks_alongside(const NcclLanes& lanes, const NcclBlocks& blocks);
/// Blocks of everything that can be on the device at once.
int most_blocks_at_once(const NcclLanes& lanes, const NcclBlocks& blocks);

/// Multiprocessors for computation: all but those of blocks_alongside(). Throws InputError when all together
/// do not fit on the device, or less than half of it is left.
int multiprocessors_for_computation(const NcclLanes& lanes, const NcclBlocks& blocks, int multiprocessors);

}  // namespace plumbline
