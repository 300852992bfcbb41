// Expected goodput of a run with injected failures, before they are injected.
#pragma once

#include <cstdint>

#include "bench/record/recovery_report.hpp"
#include "bench/run/recovery/failure_spec.hpp"
#include "bench/run/recovery/replica_sizes.hpp"
#include "bench/training/checkpoints/checkpoint_options.hpp"

namespace plumbline {

/// Predicted by analysis/reliability for a run of `steps` steps, with the cost of each event. A full disk
/// ends no rank and counts as nothing. If no hang occurred, and so hangs cost nothing, they are noticed after
/// hang_timeout. If no step was made with some number of replicas, it is as slow as `sizes` predicts.
PredictedGoodput predicted_goodput(const FailureSpec& spec, int ranks, const ReplicaSizes& sizes,
                                   const training::CheckpointOptions& options, std::int64_t steps,
                                   const RecoveryCosts& costs);

}  // namespace plumbline
