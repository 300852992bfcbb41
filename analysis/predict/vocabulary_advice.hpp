// Imbalance that embedding and output layer cause in the pipeline, and whether another placement is better.
#pragma once

#include <functional>
#include <string>

#include "analysis/predict/predict.hpp"

namespace plumbline {

/// Heaviest pipeline rank over the mean; 1 when all are alike.
struct PipelineImbalance {
  double time = 1;   // of a micro-batch's forward and backward on everything a rank holds
  double bytes = 1;  // peak
  int slowest_rank = 0;
  int fullest_rank = 0;
};
PipelineImbalance pipeline_imbalance(const Schedule& schedule, const Prediction& prediction);

using ScheduleMaker = std::function<Schedule(const RunConfig&)>;

/// Report text: the imbalance; with vocabulary parallelism the exposed share of its collectives. One more
/// line when another placement (vocab_parallel vocab-1, vocab-2 or none, layer_distribution balanced) is
/// predicted to be at least 1 % faster, or to fit where this one does not. Other placements are predicted
/// only for up to 1024 pipeline ranks × micro-batches, a few milliseconds. Empty without a pipeline or with
/// a teacher.
std::string vocabulary_report(const RunConfig& config, const Schedule& schedule, const Prediction& prediction,
                              const HardwareProfile& hardware, const ScheduleMaker& schedule_for);

}  // namespace plumbline
