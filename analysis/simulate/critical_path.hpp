// Reasons for a step's length: the critical path, and the effect of free transfers or of equal stages.
#pragma once

#include <string>
#include <vector>

#include "analysis/simulate/costs.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

struct CriticalPath {
  /// Time on the chain by cause, largest first.
  struct Share {
    std::string what;  // "stage 3 F", "transfer 2 -> 3"
    Seconds time;
    int count = 0;  // how many actions or messages
  };
  Seconds makespan;
  std::vector<Share> shares;
  Seconds transfers;      // on the chain
  Seconds on_transfers;   // makespan minus the makespan with free transfers
  Seconds on_imbalance;   // makespan minus the makespan with every stage's times replaced by their mean
  int slowest_stage = 0;  // the stage with the most work per micro-batch
};

/// The chain of actions and transfers, each waiting for the one before it, that ends last. Of two equally
/// long chains the one along a rank is taken. Processors count as unshared. Throws InputError like
/// simulate().
CriticalPath critical_path(const Schedule& schedule, const Costs& costs);

}  // namespace plumbline
