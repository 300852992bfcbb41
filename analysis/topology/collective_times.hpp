// A collective on a cluster's network: the busiest link of every algorithm, and the collective's time by
// `predict`, longer where links are shared.
#pragma once

#include <string>
#include <vector>

#include "analysis/hardware/network.hpp"
#include "analysis/topology/collective_loads.hpp"
#include "core/base/units.hpp"

namespace plumbline {

struct AlgorithmRate {
  CallAlgorithm algorithm = CallAlgorithm::ring;
  std::string link;     // the slowest of the longest phase
  BytesPerSecond rate;  // of large calls: bytes over their time on the links
};

struct CollectiveTimes {
  std::int64_t ranks = 2;  // of the first group
  std::int64_t nodes = 1;
  std::vector<AlgorithmRate> algorithms;  // those that can make the call
  /// Algorithm of `seconds`. Its link time over that of a ring (of an all-to-all: of direct messages) whose
  /// GPUs share no cable; 1: cables are no limit.
  CallAlgorithm taken = CallAlgorithm::ring;
  double sharing = 1;
  std::vector<Seconds> seconds;  // by size
};

/// Features of a network and its software.
struct CallSupport {
  Forwarding forwarding = Forwarding::none;
  bool sharp = false;  // switches add up: all-reduces between nodes are taken as sums in switches
};

/// All groups make the call at once. Times are those of analysis/hardware/network.hpp with the constants of
/// `network`, as in `predict`; a GPU's share of the network cards is divided by `sharing`. Throws InputError
/// if there is no path.
CollectiveTimes collective_times(const Fabric& fabric, const std::vector<std::vector<std::int64_t>>& groups,
                                 GroupCall call, const std::vector<Bytes>& sizes, const LinkRates& rates,
                                 const CallSupport& support, const Network& network);

}  // namespace plumbline
