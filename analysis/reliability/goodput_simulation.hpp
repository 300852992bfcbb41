// Goodput by simulation: many trials of some weeks, failure by failure.
#pragma once

#include "analysis/reliability/job_failures.hpp"
#include "analysis/reliability/trials.hpp"

namespace plumbline {

/// Every trial begins with a job that has just started, fails by `failures` and restarts from the last
/// written checkpoint. Seeded per trial.
Goodput simulate_goodput(const JobFailures& failures, const SavePlan& saves, const TrialPlan& plan);

}  // namespace plumbline
