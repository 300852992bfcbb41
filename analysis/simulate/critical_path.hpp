// Why a step takes as long as it does: the chain of work without a gap from start to end, and what would
// change without transfers or with equal stages.
#pragma once

#include <string>
#include <vector>

#include "analysis/simulate/costs.hpp"
#include "core/schedule/schedule.hpp"

namespace plumbline {

struct CriticalPath {
  /// Time on the chain by what took it, largest first.
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

/// The chain of actions and transfers, each waiting for the one before it, that ends last. Where two chains
/// are equally long, the one along a rank is taken. Processors are taken as unshared. Throws InputError like
/// simulate().
CriticalPath critical_path(const Schedule& schedule, const Costs& costs);

}  // namespace plumbline
