// What passes while attention runs: scores of unfused attention; where ranks share sequences, the keys and values of others,
// or heads of whole sequences, and their gradients (bench/training/context.md).
#include "analysis/memory/stage/stage_memory.hpp"

namespace plumbline {

void StageReplay::passing_scores() {
  take(kWorkspace, bytes_.scores);
  give(kWorkspace, bytes_.scores);
}

/// Leaves those of whole sequences.
void StageReplay::gathered_keys() {
  take(kWorkspace, bytes_.whole_keys);
  take(kWorkspace, bytes_.whole_keys);
  give(kWorkspace, bytes_.whole_keys);
}

/// Queries, keys and values, into the memory that they come from.
void StageReplay::exchange_heads() {
  if (bytes_.heads > 0) passing(2 * bytes_.qkv);
}

void StageReplay::attention_forward() {
  passing_scores();
  if (bytes_.heads > 0) return passing(2 * bytes_.heads);
  if (bytes_.block > 0) return passing(2 * bytes_.own_keys + bytes_.block + bytes_.block_statistics);
  gathered_keys();
  give(kWorkspace, bytes_.whole_keys);
}

void StageReplay::attention_backward() {
  passing_scores();  // their gradient
  if (bytes_.heads > 0) {
    passing(2 * bytes_.heads);
    passing(bytes_.heads + bytes_.qkv);
    return passing(2 * bytes_.qkv);
  }
  if (bytes_.block > 0) return passing(5 * bytes_.own_keys + bytes_.block_keys + bytes_.block);
  gathered_keys();
  take(kWorkspace, bytes_.whole_keys);  // gradients
  take(kWorkspace, bytes_.part_keys);
  give(kWorkspace, bytes_.part_keys);
  give(kWorkspace, bytes_.whole_keys);
  take(kWorkspace, bytes_.whole_keys);  // by rank
  give(kWorkspace, bytes_.whole_keys);
  take(kWorkspace, bytes_.own_keys);
  give(kWorkspace, bytes_.whole_keys);
  give(kWorkspace, bytes_.own_keys);
}

void StageReplay::passing(std::int64_t bytes) {
  take(kWorkspace, bytes);
  give(kWorkspace, bytes);
}

}  // namespace plumbline
