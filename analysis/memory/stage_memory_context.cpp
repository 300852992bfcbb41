// What passes while attention runs: scores of unfused attention; where ranks share sequences, the keys and values of all of
// them and their gradients (bench/training/context.md).
#include "analysis/memory/stage_memory.hpp"

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

void StageReplay::attention_forward() {
  passing_scores();
  gathered_keys();
  give(kWorkspace, bytes_.whole_keys);
}

void StageReplay::attention_backward() {
  passing_scores();  // their gradient
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

}  // namespace plumbline
