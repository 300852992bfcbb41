// What limits a configuration: how much its step time follows each hardware constant, and what every single
// change of the configuration would do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/search/search.hpp"
#include "core/config/run_config.hpp"

namespace plumbline::cluster {

struct Elasticity {
  std::string constant;  // as in analysis/hardware/clusters.json
  double value = 0;
  /// Relative change of the step time per relative change of the constant: -0.5 means that one percent more
  /// takes half a percent off. Central difference of two percent.
  double elasticity = 0;
};

struct Change {
  std::string what;  // "micro_batch_size 2"
  double step_s = 0;
  double peak_bytes = 0;
};

struct Limits {
  Candidate now;
  std::vector<Elasticity> hardware;  // largest effect first
  std::vector<Change> changes;       // fastest first; only what the sizes allow
};

/// The job that a run's configuration describes, and its schedule. Throws InputError for a schedule that
/// search() does not know or sizes that do not divide.
Job job_of(const RunConfig& config);
std::uint8_t schedule_index(const std::string& name, int chunks);

/// With `config`, the job's own, no change that why_invalid refuses is tried.
Limits what_limits(const Job& job, std::uint8_t schedule, const Machine& machine, const Software& software,
                   PipelinePlans& plans, std::optional<RunConfig> config = {});

}  // namespace plumbline::cluster
