// Elastic data parallelism: with how many replicas a run can continue while ranks are missing.
#pragma once

#include <vector>

#include "analysis/hardware/hardware.hpp"
#include "core/config/run_config.hpp"

namespace plumbline {

struct ReplicaSizes {
  /// Predicted step time with 1, 2, … replicas, fewer than all, relative to that with all; 0: the batch
  /// cannot be split over so many. Empty: the run is not elastic.
  std::vector<double> slower;

  int all() const { return static_cast<int>(slower.size()) + 1; }
  /// The most of them that can continue if `lost` are missing; 0: none.
  int without(int lost) const;
};

/// The run with `replicas` replicas: the same global batch, split again.
RunConfig with_replicas(const RunConfig& config, int replicas);

/// Throws InputError if the run cannot continue without one of its replicas: it has only one, or the batch
/// cannot be split over one fewer. Throws OutOfMemory if the states of one fewer do not fit its budget.
void check_elastic(const RunConfig& config);

/// Sizes of a configuration that check_elastic accepts.
ReplicaSizes elastic_sizes(const RunConfig& config, const HardwareProfile& hardware);

}  // namespace plumbline
