// What goodput to expect of a run that failures are injected into, before they are.
#pragma once

#include <cstdint>

#include "bench/record/recovery_report.hpp"
#include "bench/recovery/failure_spec.hpp"
#include "bench/training/checkpoints/checkpoint_options.hpp"

namespace plumbline {

/// By analysis/reliability, of a run of `steps` steps in which one of each costs this. A full disk ends no rank and counts as
/// nothing. Where hangs cost nothing, since none came, they are noticed after hang_timeout.
PredictedGoodput predicted_goodput(const FailureSpec& spec, int ranks,
                                   const training::CheckpointOptions& options, std::int64_t steps,
                                   const RecoveryCosts& costs);

}  // namespace plumbline
