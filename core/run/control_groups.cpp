#include "core/run/control_groups.hpp"

#include <fstream>

namespace plumbline {
namespace {

namespace fs = std::filesystem;

void add_with_ancestors(std::vector<ControlGroup>& found, const fs::path& mount, const std::string& group,
                        int version) {
  for (fs::path inner = fs::path(group).relative_path(); !inner.empty(); inner = inner.parent_path()) {
    found.push_back({mount / inner, version});
  }
  found.push_back({mount, version});
}

}  // namespace

std::vector<ControlGroup> control_groups(std::string_view controller, const std::string& root) {
  const fs::path mount = root + "/sys/fs/cgroup";
  const std::string wanted = "," + std::string(controller) + ",";
  std::vector<ControlGroup> found;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:group
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") add_with_ancestors(found, mount, group, 2);
    if (controllers.find(wanted) != std::string::npos) {
      add_with_ancestors(found, mount / controller, group, 1);
    }
  }
  return found;
}

}  // namespace plumbline
