// Predictions as the parts of a record.
#pragma once

#include <optional>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/predict/predict.hpp"
#include "analysis/published/verdict.hpp"
#include "bench/record/record.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// The verdict in words, and its chance.
void set_verdict(const MemoryVerdict& verdict, PredictionReport& report);
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
/// All of the above: the `prediction` of a record.
PredictionReport whole_report(const Prediction& prediction, const RunConfig& config,
                              const RepeatedSchedule& step, const HardwareProfile& hardware);

/// The model that is trained; its FLOPs include the forward of a teacher.
ModelReport model_report(const RunConfig& config);

/// Largest value of any rank, for each figure.
Traffic largest(const std::vector<Traffic>& ranks);
/// Nothing if no lane has any time.
std::optional<LaneSums> some_of(const LaneSums& sums);

}  // namespace plumbline
