// Memory available to new processes on this host.
#pragma once

#include <string>

#include "core/base/units.hpp"

namespace plumbline {

/// Memory that the system has available without swapping, or less: the rest within the limits of this
/// process's cgroup (v2 or v1) and its ancestors. Page cache counts as available. 0 when nothing is known.
/// `root`: folder of /proc and /sys.
Bytes available_memory(const std::string& root = "");
/// Memory of the system, or the least limit of these groups: what it can be at most. 0 when nothing is known.
Bytes total_memory(const std::string& root = "");

}  // namespace plumbline
