// Number of processors this process may use.
#pragma once

#include <string>

namespace plumbline {

/// Hardware threads in this process's affinity mask, capped by the container's CPU quota. At least 1.
int available_processors();
/// Hardware threads of the whole machine that are online, usable or not. At least 1.
int machine_processors();
/// Distinct physical cores among them (hardware threads of one core count once), capped the same way.
int available_cores();
/// Hardware threads of the calling thread: their number, and the first of them. Nobody binds ranks to sets
/// that agree in both and differ.
struct Affinity {
  int first = 0;
  int count = 1;
  friend bool operator==(const Affinity&, const Affinity&) = default;
};
Affinity thread_affinity();

/// The least CPU quota of this process's control group (cgroup v2 or v1) and its ancestors in whole
/// processors, rounded up; 0 when there is none. `root`: folder of /proc and /sys.
int processor_quota(const std::string& root = "");

}  // namespace plumbline
