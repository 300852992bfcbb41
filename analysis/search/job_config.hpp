// A job of the cluster model as a configuration: what the rest of the program is asked about it.
#pragma once

#include <string>

#include "analysis/cluster/job.hpp"
#include "core/config/run_config.hpp"

namespace plumbline::cluster {

/// Puts the sizes and switches of a job and the name of its schedule into a configuration whose other keys stay.
void set_job(const Job& job, const std::string& schedule, RunConfig& config);

}  // namespace plumbline::cluster
