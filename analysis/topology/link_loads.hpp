// Link loads: messages between GPUs, routed evenly over all shortest paths.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/topology/fabric.hpp"
#include "core/base/units.hpp"

namespace plumbline {

/// A message; its unit is the caller's.
struct Transfer {
  std::int64_t from = 0;  // GPU
  std::int64_t to = 0;
  double bytes = 0;
};

/// Forwarding of a message to another rail: by NVLink to the GPU of its node on that rail first (NCCL's PXN).
/// Without a network between rails it is the only way.
enum class Forwarding { none, own_node };

/// Bytes on every link, each direction by itself.
struct LinkLoads {
  std::vector<double> nvlink_out, nvlink_in;   // by GPU
  std::vector<double> port_up, port_down;      // by GPU, to and from its leaf switch
  std::vector<double> bundle_up, bundle_down;  // by CableBundle
};

/// None on any link.
LinkLoads no_loads(const Fabric& fabric);

/// Messages between GPUs of one NVLink domain stay there. Others go through the switches, at each of them
/// divided over the cables that begin a shortest path. Throws InputError if there is no path.
LinkLoads link_loads(const Fabric& fabric, const std::vector<Transfer>& transfers, Forwarding forwarding);

/// Every GPU of each group sends `bytes` to the next one, the last one to the first: one turn of a ring.
std::vector<Transfer> ring_transfers(const std::vector<std::vector<std::int64_t>>& groups, double bytes);

/// The same when every GPU of each group sends `bytes` to every other one of its group, by counting: time in
/// proportion to GPUs and pairs of leaf switches, not pairs of GPUs. A group has no GPU twice.
LinkLoads all_to_all_loads(const Fabric& fabric, const std::vector<std::vector<std::int64_t>>& groups,
                           double bytes, Forwarding forwarding);

/// Rates of one direction of each kind of link, in bytes/s.
struct LinkRates {
  BytesPerSecond nvlink{450e9};  // of a GPU; H100's
  BytesPerSecond port{50e9};     // 400 Gbit/s
  BytesPerSecond cable{50e9};    // between switches
};

/// The link that takes longest.
struct Bottleneck {
  Seconds time;
  std::string link;  // "nvlink", "port", "leaf to spine", ...
};
Bottleneck bottleneck_of(const Fabric& fabric, const LinkLoads& loads, const LinkRates& rates);

}  // namespace plumbline
