// Passes of a step that no other micro-batch's pass runs beside.
#pragma once

#include <cstdint>

#include "core/schedule/schedule.hpp"

namespace plumbline {

/// Forwards, and as many backwards, that have no partner where another framework computes one micro-batch
/// during the exchanges of another, per stage on the way of the first micro-batch. Megatron-Core's first rank
/// (pipeline_parallel/schedules.py) starts with twice the rest of the pipeline, a round of every further
/// chunk, and one more for the first pair; until its first backward a micro-batch passes all stages, which
/// share the delay. `microbatches`: of one replica.
double lone_passes(const Schedule& schedule, std::int64_t microbatches);

}  // namespace plumbline
