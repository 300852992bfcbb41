// Measurements as the parts of a record; predictions: prediction_parts.hpp.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "bench/plan/prediction_parts.hpp"
#include "bench/record/record.hpp"
#include "bench/training/trainer/trainer.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// `schedule` names the action of each peak; `traffic` is every rank's in one step; `hardware` gives the peak
/// that the MFU divides by.
MeasurementReport report_of(const training::TrainingResult& result, const RunConfig& config,
                            const Schedule& schedule, const std::vector<Traffic>& traffic,
                            const HardwareProfile& hardware);

/// Cost of a run's checkpoints, as world rank 0 saw it.
CheckpointReport report_of(const training::CheckpointCosts& costs,
                           const training::CheckpointOptions& options);

}  // namespace plumbline
