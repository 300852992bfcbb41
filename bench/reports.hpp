// Predictions and measurements as the parts of a record.
#pragma once

#include "analysis/hardware.hpp"
#include "analysis/predict.hpp"
#include "bench/record.hpp"
#include "bench/training/trainer.hpp"
#include "core/run_config.hpp"

namespace plumbline {

PredictionReport report_of(const Prediction& prediction);
DeviceMemoryReport report_of(const DeviceMemoryPrediction& device);
/// The same with the traffic of a step, and on backend cuda the memory of the device.
PredictionReport report_of(const Prediction& prediction, const RunConfig& config, const Schedule& schedule);

/// `schedule` names the action of each peak; `traffic` is every rank's in one step; `hardware` gives the peak
/// that the MFU divides by.
MeasurementReport report_of(const training::TrainingResult& result, const RunConfig& config,
                            const Schedule& schedule, const std::vector<Traffic>& traffic,
                            const HardwareProfile& hardware);

/// The model that is trained; its FLOPs include the forward of a teacher.
ModelReport model_report(const RunConfig& config);

/// This machine: host, processor, library versions, and the environment variables that change results.
MachineReport this_machine();

}  // namespace plumbline
