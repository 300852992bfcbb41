// Memory of one rank over a step.
#pragma once

#include <string>
#include <vector>

#include "core/tensor/arena.hpp"

namespace plumbline {

enum class MemoryDetail { peaks, timeline };

struct RankMemory {
  int rank = 0;           // the first world rank of that pipeline rank
  int pipeline_rank = 0;  // tensor and data ranks of it are alike
  MemoryBreakdown held;   // persistent, for the whole run
  MemoryBreakdown peak;   // by category at the first moment the total is largest
  std::string at;         // the action of that moment, "3F7"; empty: nothing ever exceeds `held`
  Bytes host;             // at most on the host meanwhile, not part of `peak`
  /// One sample per action of the rank's list, as Arena::sample() would give it; only when asked for.
  std::vector<MemorySample> timeline;
};

}  // namespace plumbline
