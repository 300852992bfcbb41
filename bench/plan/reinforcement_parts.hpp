// Predictions of reinforcement learning as the parts of a record.
#pragma once

#include "analysis/predict/fit.hpp"
#include "analysis/reinforcement/reinforcement_prediction.hpp"
#include "bench/record/record.hpp"

namespace plumbline {

/// Verdict of the phase that needs most, on rank 0 of its ranks.
Fit fit_of(const ReinforcementPrediction& prediction);

/// Memory of that phase, whose name stands for the action of the peak; time and throughput of the step.
/// Other figures of a training step are not a number.
PredictionReport report_of(const ReinforcementPrediction& prediction);

}  // namespace plumbline
