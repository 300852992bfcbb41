// The control groups that limit this process.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline {

struct ControlGroup {
  std::filesystem::path folder;
  int version = 2;  // of cgroup: 1 or 2
};

/// This process's control group for `controller` ("cpu", "memory") and those around it, from the inside out;
/// cgroup v2 and v1. A folder may be missing: a container may see the path of its group outside of it, where
/// there is nothing; its own group is then the mount itself. `root`: folder of /proc and /sys.
std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root = "");

}  // namespace plumbline
