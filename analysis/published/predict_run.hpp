// Result of predict() for a published run.
#pragma once

#include <string>
#include <vector>

#include "analysis/hardware/profiles/profiles.hpp"
#include "analysis/predict/fit.hpp"
#include "analysis/published/compared_row.hpp"
#include "analysis/published/dialect/published_runs.hpp"
#include "analysis/published/known_runs.hpp"
#include "analysis/published/schedule_need.hpp"

namespace plumbline {

struct PredictedRun {
  double step_s = 0;
  double peak_bytes = 0;                // of the rank that the table prints
  Spread step_spread;                   // over the values that the row leaves open
  Spread peak_spread;                   // the same
  std::string choice;                   // the values that the figures are of
  Fit fit;                              // whether the configuration is said to fit
  RunKind kind;                         // of the likeliest reading
  std::vector<std::string> unmodelled;  // why nothing is predicted: features that are not modelled yet
};

/// The prediction with the constants of `profiles`. A row that leaves settings open is predicted with each
/// value; its figures are those of the likeliest one that fits into memory. Spans are over all that fit, or
/// over all if none does. Throws InputError when the schedule cannot be made.
PredictedRun predict_run(const PublishedRun& run, const Profiles& profiles, const ScheduleMakers& make);

}  // namespace plumbline
