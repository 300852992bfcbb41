// A collective on a network, algorithm by algorithm and size by size, as text and JSON.
#pragma once

#include <string>
#include <vector>

#include "analysis/topology/collective_times.hpp"

namespace plumbline {

/// A collective along one axis, all groups at once.
struct AxisCollective {
  std::string axis;
  std::size_t groups = 0;
  std::string hardware;  // whose network the times are of
  CollectiveTimes times;
};

std::string collectives_text(GroupCall call, const std::vector<Bytes>& sizes,
                             const std::vector<AxisCollective>& axes);
/// {"collective", "sizes_bytes", "axes": [{"axis", "ranks", "nodes", "groups", "hardware", "algorithms":
/// [{"algorithm", "busiest_link", "bytes_per_s"}], "taken", "sharing", "seconds": [...]}]}
std::string collectives_json(GroupCall call, const std::vector<Bytes>& sizes,
                             const std::vector<AxisCollective>& axes);

}  // namespace plumbline
