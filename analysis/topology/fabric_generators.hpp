// Networks as they are published, of any size.
#pragma once

#include <string>

#include "analysis/topology/fabric.hpp"

namespace plumbline {

enum class SuperPod { b200, b300 };

/// DGX SuperPOD: scalable units of 32 nodes with 8 leaf switches, one per rail (B200), or of 64 nodes with 16
/// (B300). All have 32 ports down and 32 up. B200 up to 8 units and B300 up to 16 have two tiers, every leaf
/// connected to every spine. Larger B200 has groups of up to 32 leaves of one rail, as many spines below
/// each, and core switches of 64 ports. Source: NVIDIA's reference architectures
/// (docs.nvidia.com/dgx-superpod). The wiring of spines to cores is ours: the same number of each group.
/// Throws InputError for units that are not a power of two in range.
Fabric make_superpod(SuperPod generation, int units);

/// Al-Fares' fat tree of switches with `ports` ports: ports^3/4 GPUs, ports pods of ports/2 edge and
/// aggregation switches, (ports/2)^2 core switches (SIGCOMM 2008). Throws InputError unless nodes fit edge
/// switches.
Fabric make_fat_tree(int ports, int gpus_per_node);

/// No network between rails: GPUs of one rail meet at one switch, and reach other rails by NVLink
/// (arXiv:2307.12169).
Fabric make_rail_only(int nodes, int gpus_per_node, int nodes_per_domain);

/// Llama-3's fabric: racks of 16 GPUs, pods of 192 racks with full bandwidth, 1:7 between pods
/// (arXiv:2407.21783 section 3.3.1). 16 spines per pod and 16 core planes stand for its layers: capacities
/// are published, numbers of switches are not.
Fabric make_llama3(int pods);

/// "superpod-b200:16", "superpod-b300:4", "fat-tree:16", "rail-only:128", "llama3:8". Throws InputError.
Fabric make_fabric(const std::string& text);

}  // namespace plumbline
