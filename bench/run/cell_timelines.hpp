// The timelines of one cell: from the simulator and the memory model, and from a measured run.
#pragma once

#include <string>

#include "analysis/predict/predict.hpp"
#include "bench/show/report/timelines.hpp"
#include "bench/training/trainer/trainer.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

/// A step with more actions has no timeline file: it would be too large to read.
constexpr std::size_t kMostTimelineActions = 50'000;
std::size_t count_actions(const Schedule& schedule);

/// Timeline of every pipeline rank at tensor and data coordinate 0, with the memory during and after every
/// action and the collectives on their lanes.
Timeline predicted_timeline(const RunConfig& config, const Schedule& schedule, const Prediction& prediction,
                            const HardwareProfile& hardware);
/// With lanes where the run has noted them.
Timeline measured_timeline(const training::TrainingResult& result);

/// Writes the file whole or not at all; its stem is the id. Makes the folder, not those above it. Throws
/// Error.
void write_timelines(const std::string& path, CellTimelines timelines);

}  // namespace plumbline
