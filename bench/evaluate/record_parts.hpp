// Predictions and measurements as the parts of a record.
#pragma once

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "bench/record/record.hpp"
#include "bench/training/trainer/trainer.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

PredictionReport report_of(const Prediction& prediction);
DeviceMemoryReport report_of(const DeviceMemoryPrediction& device);
/// The same with the traffic of a step, and on backend cuda the memory of the device.
PredictionReport report_of(const Prediction& prediction, const RunConfig& config,
                           const RepeatedSchedule& step);

/// The step's bounds when every class of operators is as fast, or as slow, as in the calibration; nothing for
/// a profile without that range.
std::optional<StepInterval> step_interval_of(const RunConfig& config, const RepeatedSchedule& step,
                                             const HardwareProfile& hardware);
/// The lanes of a predicted step, means over pipeline ranks; nothing if ranks share processors, or nothing
/// runs on any.
std::optional<LaneSums> lanes_of(const RunConfig& config, const RepeatedSchedule& step,
                                 const HardwareProfile& hardware);
/// `schedule` names the action of each peak; `traffic` is every rank's in one step; `hardware` gives the peak
/// that the MFU divides by.
MeasurementReport report_of(const training::TrainingResult& result, const RunConfig& config,
                            const Schedule& schedule, const std::vector<Traffic>& traffic,
                            const HardwareProfile& hardware);

/// Cost of a run's checkpoints, as world rank 0 saw it.
CheckpointReport report_of(const training::CheckpointCosts& costs,
                           const training::CheckpointOptions& options);

/// The model that is trained; its FLOPs include the forward of a teacher.
ModelReport model_report(const RunConfig& config);

}  // namespace plumbline
