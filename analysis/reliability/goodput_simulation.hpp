// Goodput by simulation: many trials of some weeks, failure by failure.
#pragma once

#include "analysis/reliability/job_failures.hpp"
#include "analysis/reliability/trials.hpp"

namespace plumbline {

/// Every trial begins with a job that has just started, fails as `failures` says and starts again from the last checkpoint
/// that was written. Seeded per trial.
Goodput simulate_goodput(const JobFailures& failures, const SavePlan& saves, const TrialPlan& plan);

}  // namespace plumbline
