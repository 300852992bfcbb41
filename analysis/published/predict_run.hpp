// THE BRIDGE from a published run to the model that predicts it: the one place that knows both.
#pragma once

#include <string>
#include <vector>

#include "analysis/cluster/step.hpp"
#include "analysis/hardware/profiles.hpp"
#include "analysis/published/dialect/published_runs.hpp"

namespace plumbline::cluster {

struct PredictedRun {
  double step_s = 0;                    // 0: not asked for
  double peak_bytes = 0;                // of the rank that the table prints
  std::vector<std::string> unmodelled;  // why nothing is predicted: features that are not modelled yet
};

/// What the model predicts of what was measured. Throws InputError when the schedule cannot be made.
PredictedRun predict_run(const PublishedRun& run, const Profiles& profiles, const ScheduleMaker& make);

}  // namespace plumbline::cluster
