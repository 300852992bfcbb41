// How many bytes every rank allocates, by category, derived from the published description of a rank
// (bench/training/README.md) and the schedule alone.
#pragma once

#include <string>
#include <vector>

#include "analysis/memory/action_memory.hpp"
#include "analysis/memory/persistent_memory.hpp"
#include "analysis/work/shapes.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"
#include "core/tensor/arena.hpp"

namespace plumbline {

struct RankMemory {
  int rank = 0;           // world rank
  int pipeline_rank = 0;  // its pipeline coordinate
  MemoryBreakdown held;   // what lives for the whole run
  MemoryBreakdown peak;   // by category at the first moment the total is largest
  std::string at;         // the action of that moment, "3F7"; empty: nothing ever exceeds `held`
  /// One sample per action of the rank's list, as Arena::sample() would give it; only when asked for.
  std::vector<MemorySample> timeline;
};

struct MemoryPrediction {
  std::vector<RankMemory> ranks;  // every world rank, ascending
  Bytes peak;                     // largest total of any rank
  int peak_rank = 0;              // the first world rank that reaches it
  bool fits(Bytes budget) const { return budget.value == 0 || peak <= budget; }
};

enum class MemoryDetail { peaks, timeline };

/// Exact allocated bytes (elements × size, no rounding) of every rank over one training step.
/// Throws InputError when the schedule has an action whose memory the description does not cover.
MemoryPrediction predict_memory(const RunConfig& config, const Schedule& schedule,
                                MemoryDetail detail = MemoryDetail::peaks);
/// The same with a framework's traits instead of those that `software` names.
MemoryPrediction predict_memory(const RunConfig& config, const Schedule& schedule, MemoryDetail detail,
                                const cluster::Software* framework);

}  // namespace plumbline
