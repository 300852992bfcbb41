// A simulated schedule as JSON.
#pragma once

#include "analysis/simulate/critical_path.hpp"
#include "analysis/simulate/simulation_report.hpp"
#include "core/base/json_keys.hpp"

namespace plumbline {

/// Times in microseconds, as `simulate --json` prints them.
OrderedJson simulation_json(const SimulationReport& report, const CriticalPath& path);

}  // namespace plumbline
