// The whole prediction of one configuration: memory, time, bubble and throughput. Field names are the
// record's keys.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "analysis/memory/device_memory.hpp"
#include "analysis/memory/memory_model.hpp"
#include "analysis/time/time_model.hpp"
#include "core/config/run_config.hpp"
#include "core/schedule/schedule.hpp"
#include "core/trace/collective_overlap.hpp"
#include "core/trace/trace.hpp"

namespace plumbline {

/// Seconds of one training step. step_s ≈ compute_s + exposed_tensor_s + exposed_pipeline_s + exposed_data_s
/// + optimizer_s, each the mean over pipeline ranks.
struct StepTime {
  Seconds step_s;
  double bubble_ratio = 0;     // idle ÷ compute over the pipeline's part of the step
  double bubble_fraction = 0;  // idle ÷ (idle + compute)
  Seconds compute_s;           // forward and backward without communication, recomputation included
  Seconds exposed_tensor_s;    // tensor-parallel collectives inside them
  Seconds exposed_pipeline_s;  // waiting for other stages, messages included
  Seconds exposed_data_s;      // gathers and reductions over replicas that computation does not hide
  Seconds optimizer_s;         // its reductions, gradient norm, update, gathering of values, clearing
};

struct Throughput {
  double tokens_per_s = 0;
  double tokens_per_s_per_gpu = 0;
  double model_tflops_per_gpu = 0;  // model FLOPs (analysis/work/flops.hpp) per rank and second, in 10^12
  double mfu = 0;                   // model_tflops_per_gpu ÷ peak_tflops; a teacher's forward counts
  double peak_tflops = 0;           // of one rank's device in the storage type
  double hfu = 0;                   // the same with the FLOPs that are executed, recomputation included
};

struct Prediction {
  bool fits = true;
  /// What `fits` compares the tensors with: memory_budget, else the device's memory; 0: no bound. On backend
  /// cuda the latter is what the fullest rank's context and libraries leave of the card.
  Bytes budget;
  MemoryPrediction memory;
  std::optional<DeviceMemoryPrediction> device;  // nothing: the profile does not know
  StepTime time;
  Throughput throughput;
  Costs costs;  // the simulator's input
  Trace trace;  // its output
  /// Of the collectives of a cut vocabulary; what is waited is part of time.exposed_pipeline_s. Where nothing
  /// runs beside computation all of their time is exposed.
  VocabularyOverlap vocabulary{};
  std::vector<CostLine> lines;  // where the time of each stage comes from
};

/// What of the configuration the hardware cannot do, in one line: what was found, what to change.
std::optional<std::string> why_unpredictable(const RunConfig& config, const HardwareProfile& hardware);

/// Throws InputError when why_unpredictable has a reason.
Prediction predict(const RunConfig& config, const Schedule& schedule, const HardwareProfile& hardware);

/// Throughput of `config` when a step takes `step`; a measurement uses the same definition. `stages`: in how
/// many the model is cut, which decides how many layers are recomputed together; 0: pipeline ranks × chunks.
Throughput throughput_of(const RunConfig& config, const HardwareProfile& hardware, Seconds step,
                         int stages = 0);
/// The formulas of MFU and HFU with the numbers put in and the peak that was used, some lines of text.
std::string explain_throughput(const RunConfig& config, const Throughput& throughput, int stages = 0);

}  // namespace plumbline
