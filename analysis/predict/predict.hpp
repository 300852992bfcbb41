// The whole prediction of one configuration: memory, time, bubble and throughput.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/hardware/software.hpp"
#include "analysis/memory/device_memory.hpp"
#include "analysis/memory/memory_model.hpp"
#include "analysis/predict/fit.hpp"
#include "analysis/predict/prediction_rows.hpp"
#include "analysis/time/stage/time_model.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/repeated_schedule.hpp"
#include "core/trace/collective_overlap.hpp"
#include "core/trace/step_figures.hpp"

namespace plumbline {

struct Prediction {
  Fit fit;
  MemoryPrediction memory;
  std::optional<DeviceMemoryPrediction> device;  // nothing: the profile does not know
  StepTime time;
  Throughput throughput;
  bool guessed = false;    // times and rates: HardwareProfile::guessed()
  bool estimated = false;  // they come from an accelerator's constants, not from calibration
  Costs costs;             // the simulator's input: simulate() gives the trace of every action
  /// Collectives of vocabulary parallelism; their exposed time is part of time.exposed_pipeline. Without
  /// overlap with computation all of their time is exposed.
  VocabularyOverlap vocabulary{};
  std::vector<CostLine> lines;  // where the time of each stage comes from
};

/// Throws InputError when why_unpredictable has a reason.
Prediction predict(const RunConfig& config, const RepeatedSchedule& step, const HardwareProfile& hardware);
/// The same with a slowdown factor for the work of each pipeline rank, such as one whose processor others use
/// too. Messages, collectives between stages and memory are as before. Throws InputError unless there is one
/// factor per pipeline rank.
Prediction predict(const RunConfig& config, const RepeatedSchedule& step, const HardwareProfile& hardware,
                   const std::vector<double>& longer);
/// The same with given traits instead of those that `software` names.
/// `collectives`: false leaves out those of vocabulary parallelism, which take a trace of the whole step.
Prediction predict(const RunConfig& config, const RepeatedSchedule& step, const HardwareProfile& hardware,
                   const Software& software, bool collectives = true);

/// Throughput of `config` when a step takes `step`; a measurement uses the same definition. `stages`: number
/// of stages of the model, which decides how many layers are recomputed together; 0: pipeline ranks ×
/// chunks.
Throughput throughput_of(const RunConfig& config, const HardwareProfile& hardware, Seconds step,
                         int stages = 0);
/// The formulas of MFU and HFU with the numbers put in and the peak that was used, some lines of text.
std::string explain_throughput(const RunConfig& config, const Throughput& throughput, int stages = 0);

}  // namespace plumbline
