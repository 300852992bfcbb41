// Elastic data parallelism: with how many replicas a run can go on while ranks are missing.
#pragma once

#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct ReplicaSizes {
  /// Of a step with 1, 2, … replicas, fewer than all, how many times as long as with all it takes, as predicted; 0: the batch
  /// cannot be dealt out to so many. Empty: the run is not elastic.
  std::vector<double> slower;

  int all() const { return static_cast<int>(slower.size()) + 1; }
  /// The most of them that can go on where `lost` are missing; 0: none.
  int without(int lost) const;
};

/// The run with so many replicas: the same global batch, dealt out anew.
RunConfig with_replicas(const RunConfig& config, int replicas);

/// Throws InputError where the run cannot go on without one of its replicas: there is one alone, the batch cannot be dealt out to
/// one fewer; OutOfMemory where the states of one fewer do not fit its budget.
void check_elastic(const RunConfig& config);

/// Of a configuration that check_elastic lets pass.
ReplicaSizes elastic_sizes(const RunConfig& config, const HardwareProfile& hardware);

}  // namespace plumbline
