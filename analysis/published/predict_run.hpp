// Result of predict() for a published run.
#pragma once

#include <string>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/fit.hpp"
#include "analysis/published/dialect/published_runs.hpp"
#include "analysis/published/schedule_need.hpp"

namespace plumbline {

struct PredictedRun {
  double step_s = 0;
  double peak_bytes = 0;                // of the rank that the table prints
  Fit fit;                              // whether the configuration is said to fit
  std::vector<std::string> unmodelled;  // why nothing is predicted: features that are not modelled yet
};

/// The prediction with the constants of `profiles`. Throws InputError when the schedule cannot be made.
PredictedRun predict_run(const PublishedRun& run, const Profiles& profiles, const ScheduleMakers& make);

}  // namespace plumbline
