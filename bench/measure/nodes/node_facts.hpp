// State of this host that sysfs tells without permission.
#pragma once

#include <string>

#include "bench/record/node_report.hpp"

namespace plumbline {

/// Hottest sensor, errors of the memory's ECC (EDAC), ports of InfiniBand and Ethernet. Missing files leave
/// values untold. `root`: where sysfs is mounted.
NodeHealth health_of_host(const std::string& root = "/sys");

}  // namespace plumbline
