// A predicted step in the categories of a measured one.
#pragma once

#include <vector>

#include "analysis/diagnose/diagnosis.hpp"
#include "analysis/diagnose/time_share.hpp"
#include "analysis/predict/predict.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

/// Means over pipeline ranks; the sum is the predicted step. Predictions do not part a bubble from the
/// messages in it: both are the bubble.
SharedTime expected_time(const Prediction& prediction);

/// Sizes of the groups of a configuration.
GroupSizes group_sizes_of(const RunConfig& config);

/// Findings of a difference to the prediction: what is longer by at least kLeastFinding of the step, with the
/// operators that make most of it.
std::vector<StepFinding> differences_of(const Diagnosis& measured, const SharedTime& expected);

}  // namespace plumbline
