// Every algorithm for a collective on a network, by size: its busiest link, its time, NCCL's time and the
// best.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "analysis/topology/nccl_tuning.hpp"

namespace plumbline {

struct AlgorithmTime {
  Seconds time;
  std::optional<NcclProtocol> protocol;  // the quickest of NCCL's; nothing: not an algorithm of NCCL's
};

struct AlgorithmTimes {
  CallAlgorithm algorithm = CallAlgorithm::ring;
  std::string link;                  // that takes longest, in the longest phase
  BytesPerSecond rate;               // of large calls: bytes over their time on the links
  std::vector<AlgorithmTime> times;  // by size
};

struct CollectiveTimes {
  GroupShape shape;
  std::vector<AlgorithmTimes> algorithms;  // those that can make the call
  std::vector<std::size_t> nccl;           // by size: which of them NCCL takes
  std::vector<std::size_t> best;           // by size: the quickest
};

/// Features of a network and its software.
struct CallSupport {
  Forwarding forwarding = Forwarding::none;
  bool sharp = false;  // switches add up, and NCCL may have them do it
};

/// All groups make the call at once. NCCL's algorithms take the time that NCCL expects (nccl_time), at the
/// rate of the busiest link. The others take the time on the links and the latencies of their steps. NCCL
/// forwards an all-to-all (NCCL_P2P_PXN_LEVEL defaults to 2). Without `sharp` in-switch reductions are listed
/// for comparison only. Throws InputError if there is no path.
CollectiveTimes collective_times(const Fabric& fabric, const std::vector<std::vector<std::int64_t>>& groups,
                                 GroupCall call, const std::vector<Bytes>& sizes, const LinkRates& rates,
                                 const CallSupport& support);

}  // namespace plumbline
