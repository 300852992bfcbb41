// Buffers while attention runs: scores of unfused attention; under context parallelism the K/V of other
// ranks, or heads of whole sequences, and their gradients (bench/training/context.md).
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

/// Leaves those of whole sequences.
void StageReplay::gathered_keys() {
  take(kWorkspace, bytes_.context.whole_keys);
  take(kWorkspace, bytes_.context.whole_keys);
  give(kWorkspace, bytes_.context.whole_keys);
}

/// Queries, keys and values, into the memory that they come from.
void StageReplay::exchange_heads() {
  if (bytes_.attention.heads > 0) passing(2 * bytes_.attention.qkv);
}

void StageReplay::attention_forward() {
  take(kWorkspace, bytes_.attention.scores);
  attend_forward();
  give(kWorkspace, bytes_.attention.scores);
}

void StageReplay::attend_forward() {
  if (bytes_.context.block > 0)
    passing(2 * bytes_.context.own_keys + bytes_.context.block + bytes_.context.block_statistics);
  if (bytes_.attention.heads > 0) return passing(2 * bytes_.attention.heads);
  if (bytes_.context.block > 0) return;
  gathered_keys();
  give(kWorkspace, bytes_.context.whole_keys);
}

void StageReplay::attention_backward() {
  take(kWorkspace, bytes_.attention.scores);  // their gradient
  attend_backward();
  give(kWorkspace, bytes_.attention.scores);
}

void StageReplay::attend_backward() {
  const std::int64_t ring =
      bytes_.context.block > 0
          ? 5 * bytes_.context.own_keys + bytes_.context.block_keys + bytes_.context.block_queries
          : 0;
  if (bytes_.attention.heads > 0) {
    passing(2 * bytes_.attention.heads);
    passing(bytes_.attention.heads + bytes_.attention.qkv + ring);
    return passing(2 * bytes_.attention.qkv);
  }
  if (ring > 0) return passing(ring);
  gathered_keys();
  take(kWorkspace, bytes_.context.whole_keys);  // gradients
  take(kWorkspace, bytes_.context.part_keys);
  give(kWorkspace, bytes_.context.part_keys);
  give(kWorkspace, bytes_.context.whole_keys);
  take(kWorkspace, bytes_.context.whole_keys);  // by rank
  give(kWorkspace, bytes_.context.whole_keys);
  take(kWorkspace, bytes_.context.own_keys);
  give(kWorkspace, bytes_.context.whole_keys);
  give(kWorkspace, bytes_.context.own_keys);
}

void StageReplay::passing(std::int64_t bytes) {
  take(kWorkspace, bytes);
  give(kWorkspace, bytes);
}

}  // namespace plumbline
