// How much memory new processes can have on this host.
#pragma once

#include <string>

#include "core/base/units.hpp"

namespace plumbline {

/// Memory that the system has available without swapping, or less: what the limits of this process's control group
/// and of those around it leave (cgroup v2 or v1). Page cache counts as available. 0 when nothing is known.
/// `root`: where /proc and /sys are.
Bytes available_memory(const std::string& root = "");

}  // namespace plumbline
