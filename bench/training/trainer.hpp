// Runs training steps of one configuration on one rank and reports what was measured.
#pragma once

#include <functional>
#include <vector>

#include "bench/training/stage.hpp"
#include "core/trace.hpp"

namespace plumbline::training {

/// Memory of one rank at its peak.
struct RankMemory {
  MemoryBreakdown at_peak;
  Bytes reserved;  // taken from the system by the arena
};

struct TrainingResult {
  std::vector<Seconds> step_times;  // timed steps, barrier to barrier
  std::vector<double> losses;       // of every step, warm-up included
  double gradient_norm = 0;         // of the last step, before clipping
  Trace trace;                      // of the timed step with the median time
  Seconds tensor_communication;     // in that step, mean over ranks
  std::vector<RankMemory> memory;   // by world rank, peak over all steps
  Traffic traffic;                  // of this rank, all steps
};

/// Called on world rank 0 after each step: steps done, steps in all, warm-up included.
using StepProgress = std::function<void(int done, int all)>;

/// Builds the stage, loads weights and data as the configuration says and runs warmup_steps + steps steps of
/// `schedule` (with transfers and step end). Collective over the world; every rank gets the same result
/// except for `traffic`. Throws OutOfMemory, InputError (weights, data), Error.
TrainingResult train(const RunConfig& config, const Schedule& schedule, Operators& operators,
                     Communicator& communicator, std::unique_ptr<MemorySource> memory,
                     const StepProgress& progress);

}  // namespace plumbline::training
