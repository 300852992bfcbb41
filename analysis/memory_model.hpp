// How many bytes every rank allocates, by category, derived from the published description of a rank
// (bench/training/README.md) and the schedule alone.
#pragma once

#include <string>
#include <vector>

#include "analysis/shapes.hpp"
#include "core/arena.hpp"
#include "core/run_config.hpp"
#include "core/schedule.hpp"

namespace plumbline {

struct RankMemory {
  int rank = 0;           // world rank
  int pipeline_rank = 0;  // its pipeline coordinate
  MemoryBreakdown held;   // what lives for the whole run
  MemoryBreakdown peak;   // by category at the first moment the total is largest
  std::string at;         // the action of that moment, "3F7"; empty: nothing ever exceeds `held`
};

struct MemoryPrediction {
  std::vector<RankMemory> ranks;  // every world rank, ascending
  Bytes peak;                     // largest total of any rank
  int peak_rank = 0;              // the first world rank that reaches it
  bool fits(Bytes budget) const { return budget.value == 0 || peak <= budget; }
};

/// Exact allocated bytes (elements × size, no rounding) of every rank over one training step.
/// Throws InputError when the schedule has an action whose memory the description does not cover.
MemoryPrediction predict_memory(const RunConfig& config, const Schedule& schedule);

/// fp32 elements of scratch that the CPU's blocked attention wants, with B = min(128, s) query rows at a
/// time: two B×s blocks of scores, four s×d copies of one head's keys, values and their gradients, three B×d
/// blocks of one head's queries, output gradients and result, and one number per row.
std::int64_t attention_scratch_elements(const StageShape& shape);

/// What one action allocates and frees, reduced to what a walk over the schedule needs.
struct ActionProfile {
  MemoryBreakdown net;   // after the action, relative to before
  MemoryBreakdown peak;  // at the first moment of its largest total, relative to before
};
/// The profile of `type` on this stage.
ActionProfile action_profile(const StageShape& shape, ActionType type);
/// Bytes that live for the whole run on a rank that holds this stage alone.
MemoryBreakdown held_bytes(const StageShape& shape, const RunConfig& config);

}  // namespace plumbline
