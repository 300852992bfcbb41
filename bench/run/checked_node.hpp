// One rank of `plumbline doctor --nodes`.
#pragma once

#include <functional>
#include <vector>

#include "bench/record/node_report.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct NodeCheckRequest {
  Backend backend = Backend::cpu;
  double limit_s = 1;  // of one look at products and copies
  int slow_rank = -1;  // made slow on purpose, for tests; backend cpu
  double slow_factor = 1;
};

/// Measures this rank beside all others. World rank 0 calls `on_reports` with all reports, judged. Starts
/// MPI, or replaces this process by the program of backend cuda. Returns the exit code: 1 when one failed.
int run_as_checked_node(const NodeCheckRequest& request,
                        const std::function<void(const std::vector<NodeReport>&)>& on_reports);

}  // namespace plumbline
